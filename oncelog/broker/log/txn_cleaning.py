"""Transactions as the cleaner meets them on its way through a log: which batches were aborted, which markers
are still needed.

A marker is needed while a batch of its transaction is in the log, be it an empty one; the cleaner always walks
from the first segment on, so it has met every such batch when it comes to the marker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from oncelog.broker.log.txn_index import AbortedTxn
from oncelog.protocol.records.batch import BatchHeader
from oncelog.protocol.records.control import ControlType


class _Aborted:
    __slots__ = ("has_batches", "txn")

    def __init__(self, txn: AbortedTxn) -> None:
        self.txn = txn
        self.has_batches = False


class CleanedTransactions:
    """Fed with every batch in order of the offsets."""

    __slots__ = ("_aborted", "_committed", "_upcoming", "kept_aborts")

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        self._upcoming = deque(sorted(aborted, key=lambda txn: txn.first_offset))
        self._aborted: dict[int, _Aborted] = {}
        self._committed: set[int] = set()
        self.kept_aborts: list[AbortedTxn] = []
        """Aborted transactions whose marker stays: the transaction index of the cleaned segment."""

    def is_aborted(self, header: BatchHeader) -> bool:
        """Takes note of a batch of data; True if its transaction was aborted."""
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        aborted = self._aborted.get(header.producer_id)
        if aborted is None:
            self._committed.add(header.producer_id)
            return False
        aborted.has_batches = True
        return True

    def is_marker_obsolete(self, header: BatchHeader, control_type: int | None) -> bool:
        """Takes note of a marker; True if nothing of its transaction is left. None: it was emptied before."""
        self._begin_up_to(header.last_offset)
        producer_id = header.producer_id
        if control_type is None:
            return True
        if control_type == ControlType.ABORT:
            aborted = self._aborted.pop(producer_id, None)
            if aborted is None or not aborted.has_batches:
                return True
            self.kept_aborts.append(aborted.txn)
            return False
        if control_type == ControlType.COMMIT:
            if producer_id not in self._committed:
                return True
            self._committed.remove(producer_id)
        return False

    def _begin_up_to(self, offset: int) -> None:
        upcoming = self._upcoming
        while upcoming and upcoming[0].first_offset <= offset:
            txn = upcoming.popleft()
            self._aborted.setdefault(txn.producer_id, _Aborted(txn))
