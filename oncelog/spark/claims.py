"""Which query of this process writes to which cluster under which transactional id.

Two queries under one id would fence each other for ever. Two writes of one batch under one id would look like a
batch and its repetition, and the second would be skipped. Both are refused here. A cluster is known by the id that its
brokers report, not by its address: one cluster has several addresses.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from oncelog.named_tuple import NamedTuple
from oncelog.spark.errors import SinkError, TransactionalIdInUse
from oncelog.spark.query import QueryState


class SinkName(NamedTuple):
    cluster_id: str
    transactional_id: str


class Claims:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owners: dict[SinkName, QueryState] = {}
        self._written: dict[SinkName, tuple[str, int]] = {}
        """The run and the batch of the last call that returned."""

    def take(self, name: SinkName, query: QueryState, batch_id: int, is_running: Callable[[QueryState], bool]) -> bool:
        """True if this run of the query writes under the name for the first time."""
        with self._lock:
            if query.run_id and self._written.get(name) == (query.run_id, batch_id):
                raise SinkError(
                    f"batch {batch_id} was written to this cluster under the transactional id"
                    f" {name.transactional_id!r} just now, and a second write would be taken for its repetition: each"
                    " write of a batch needs a transactional id of its own. Rows for several topics can go in one"
                    " write, with a column `topic`"
                )
            owner = self._owners.get(name)
            if owner is not None and owner.run_id != query.run_id and is_running(owner):
                raise TransactionalIdInUse(
                    f"the transactional id {name.transactional_id!r} is in use by the running query"
                    f" {owner.query_id}; each query needs one of its own"
                )
            self._owners[name] = query
            return owner is None or owner.run_id != query.run_id

    def note_written(self, name: SinkName, query: QueryState, batch_id: int) -> None:
        with self._lock:
            self._written[name] = (query.run_id, batch_id)
