"""Writing the checkpoints of a data directory in two halves, so that the slow half can run in another thread.

`LogManager.begin_checkpoints` gathers what the files are to say, `CheckpointTicket.run` writes them and may run
anywhere, `LogManager.complete_checkpoints` takes note. Tickets are numbered, and none overwrites a later one: a
recovery point that was lowered in the meantime must not come back.
"""

from __future__ import annotations

import os
from threading import Lock
from typing import TYPE_CHECKING

from oncelog.broker.log import checkpoints

if TYPE_CHECKING:
    from oncelog.broker.log.checkpoints import TopicPartition
    from oncelog.broker.log.disk import Disk
    from oncelog.broker.log.partition_log import PartitionLog


class CheckpointOrder:
    """The numbers of the last tickets of a directory that were begun, written, and taken note of."""

    __slots__ = ("_named", "begun", "completed", "lock", "written")

    def __init__(self) -> None:
        self.lock = Lock()
        self.begun = 0
        self.written = 0
        self.completed = 0
        self._named: set[TopicPartition] = set()
        """The partitions in tickets that were begun since all of them were taken note of."""

    def begin(self, files: dict[str, dict[TopicPartition, int]]) -> int:
        self.begun += 1
        self._named.update(*files.values())
        return self.begun

    def complete(self, number: int) -> None:
        self.completed = number
        if not self.is_pending:
            self._named.clear()

    def may_write(self, key: TopicPartition) -> bool:
        """Whether the files may say something of a partition, now or soon, that nobody has taken note of."""
        return self.is_pending and key in self._named

    @property
    def is_pending(self) -> bool:
        """Whether the files may say, now or soon, something that nobody has taken note of."""
        return self.completed < self.begun


class CheckpointTicket:
    """One round of checkpoints: the files that changed, and the recovery points they promise."""

    __slots__ = ("_disk", "_order", "_root", "error", "files", "number", "recovery_points")

    def __init__(
        self,
        disk: Disk,
        root: str,
        order: CheckpointOrder,
        files: dict[str, dict[TopicPartition, int]],
        recovery_points: list[tuple[PartitionLog, int]],
    ) -> None:
        self.number = order.begin(files)
        self.files = files
        self.recovery_points = recovery_points
        self.error: OSError | None = None
        self._disk = disk
        self._root = root
        self._order = order

    def run(self) -> None:
        """Writes the files unless a later ticket did; a failure is kept for `complete_checkpoints`."""
        with self._order.lock:
            if self.number < self._order.written:
                return
            try:
                for name, offsets in self.files.items():
                    checkpoints.write_offsets(self._disk, os.path.join(self._root, name), offsets)
            except OSError as error:
                # The order does not move: what the files say is unknown until a later ticket succeeds.
                self.error = error
            else:
                self._order.written = self.number

    @property
    def counts(self) -> bool:
        """Whether the directory holds what this ticket says."""
        return self._order.written == self.number
