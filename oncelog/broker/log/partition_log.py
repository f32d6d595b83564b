"""The log of one partition: the only door to its files.

All methods run on one thread, except `FlushTicket.run`. Offsets of note, in order:

    log_start_offset ≤ last_stable_offset ≤ high_watermark ≤ end_offset

`recovery_point` is the offset below which everything is known to be on disk. `flushed_offset` is the same
number under the name that the acks of a single node wait for.

A log that cannot be trusted any more is offline: every call raises StorageError from then on. That is the
case after a failed sync, since nobody knows what the kernel dropped, and after a failed write that could not
be undone. A full disk is no such case: the write is cut off, refused, and the next one may succeed.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator

from oncelog.broker.log import log_reader, recovery, removal, replication, segment_swap, steps
from oncelog.broker.log.disk import Disk, StorageError
from oncelog.broker.log.flush import FlushTicket
from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.log_reader import Location, ReadResult, TimestampOffset
from oncelog.broker.log.log_writer import AppendResult, LogWriter
from oncelog.broker.log.open_files import OpenFiles
from oncelog.broker.log.producer_entry import ProducerEntry
from oncelog.broker.log.segment import Segment
from oncelog.broker.log.segment_swap import CleanedSegment
from oncelog.broker.log.steps import Steps
from oncelog.broker.log.txn_index import AbortedTxn
from oncelog.broker.log.verification import VerificationGuard
from oncelog.protocol.errors import ErrorCode, KafkaError


class PartitionLog(LogWriter):
    """See the module. Made by `open`, which also creates a log that does not exist."""

    __slots__ = ()

    @classmethod
    def open(
        cls,
        directory: str,
        config: LogConfig,
        disk: Disk,
        *,
        topic: str,
        partition: int,
        topic_id: bytes | None,
        clean: bool,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        now_ms: int,
        files: OpenFiles | None = None,
    ) -> PartitionLog:
        """Opens or creates a log. `clean` says that it was closed properly and needs no recovery.

        Raises StorageError if records below the recovery point are damaged or missing.
        """
        log = cls(directory, config, disk, OpenFiles() if files is None else files)
        log.topic = topic
        log.partition = partition
        log.topic_id = topic_id
        log.checkpointed_recovery_point = recovery_point
        try:
            recovery.load(log, clean, recovery_point, log_start_offset, now_ms)
        except OSError as error:
            raise StorageError(f"{directory} cannot be opened: {error}") from error
        return log

    def write_topic_id(self, topic_id: bytes) -> None:
        """Notes whose log it is, where that was not known."""
        recovery.write_topic_id(self, topic_id)

    # -- reading ---------------------------------------------------------------------------------------------

    def read(self, offset: int, *, size_bytes_max: int, end_offset: int, min_one: bool = True) -> ReadResult:
        """Whole batches from the one that holds `offset`, up to `end_offset` and about `size_bytes_max`.

        The first batch is returned whatever its size if `min_one`. OFFSET_OUT_OF_RANGE outside the log.
        """
        self.check_online()
        return log_reader.read(self, offset, size_bytes_max, end_offset, min_one)

    def locate(self, offset: int, *, size_bytes_max: int, end_offset: int, min_one: bool = True) -> Location:
        """As `read`, but only where the batches lie, to be sent from there."""
        self.check_online()
        return log_reader.locate(self, offset, size_bytes_max, end_offset, min_one)

    def locate_committed(
        self, offset: int, *, size_bytes_max: int, end_offset: int, min_one: bool = True
    ) -> tuple[Location, list[AbortedTxn]]:
        """As `locate`, with the aborted transactions among the batches, for a reader of committed records."""
        self.check_online()
        return log_reader.locate_committed(self, offset, size_bytes_max, end_offset, min_one)

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTxn]:
        """Aborted transactions with records in [start, end), by first offset: the list of a Fetch answer."""
        self.check_online()
        return log_reader.aborted_transactions(self, start_offset, end_offset)

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record that is not older; None if there is none."""
        self.check_online()
        return log_reader.offset_for_timestamp(self, timestamp)

    @property
    def largest_timestamp(self) -> int:
        """Of all records; -1 if there are none."""
        return max(segment.largest_timestamp for segment in self.segments.items)

    def max_timestamp(self) -> TimestampOffset | None:
        """The record with the largest timestamp; None in an empty log."""
        self.check_online()
        return log_reader.max_timestamp(self)

    def offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """(epoch, end offset) for OffsetForLeaderEpoch; (-1, -1) if the epoch is unknown."""
        return self.epochs.end_offset_for(leader_epoch, self.end_offset)

    # -- watermarks ------------------------------------------------------------------------------------------

    def update_high_watermark(self, offset: int) -> int:
        """Moves the high watermark, within the log; returns where it is now."""
        high_watermark = min(max(offset, self.log_start_offset), self.end_offset)
        self.high_watermark = high_watermark
        self.producers.on_high_watermark(high_watermark)
        return high_watermark

    @property
    def last_stable_offset(self) -> int:
        """Up to where read_committed may read: no transaction below it is open or could be lost."""
        unstable = self.producers.first_unstable_offset
        if unstable < 0:
            return self.high_watermark
        return min(max(unstable, self.log_start_offset), self.high_watermark)

    @property
    def flushed_offset(self) -> int:
        return self.recovery_point

    # -- flushing --------------------------------------------------------------------------------------------

    @property
    def unsynced_tail_bytes(self) -> int:
        """What a flush has to sync, if that is nothing but the end of an open file; -1 if it is more, or less."""
        active = self.active
        if self.dirty_fds or self.dirty_segments or self.dirty_paths or self.dirty_directories:
            return -1
        return active.size_bytes - active.synced_bytes if active.dirty and active.is_open else -1

    def flush_tail(self) -> None:
        """The flush that `unsynced_tail_bytes` allows, without a ticket: for a loop that waits for the disk itself."""
        if self._offline is not None:
            raise StorageError(self._offline)
        assert self.ticket is None, "a flush of this log is under way"
        assert not self.holds_files_to_sync, "more than the tail has to be synced"
        active = self.active
        active.make_room(self.config.segment_bytes)
        try:
            self.disk.fdatasync(active.file())
        except OSError as error:
            self.go_offline(f"a sync failed: {error}")
            self.check_online()
        active.dirty = False
        active.synced_bytes = active.size_bytes
        self.positions.put(self.end_offset, active, active.size_bytes)
        self.recovery_point = self.end_offset

    def begin_flush(self, *, ahead: bool = False) -> FlushTicket | None:
        """What must be synced for everything appended so far to be durable; None if nothing must be.

        One flush at a time: `complete_flush` comes before the next `begin_flush`. `ahead` says that more of them will
        follow, so that room is made for what they sync.
        """
        self.check_online()
        assert self.ticket is None, "a flush of this log is under way"
        active = self.active
        if active.dirty:
            if ahead:
                active.make_room(self.config.segment_bytes)
            if active not in self.dirty_segments:
                self.dirty_segments.append(active)
        if not (self.holds_files_to_sync or self.dirty_paths or self.dirty_directories):
            self.recovery_point = self.end_offset
            return None
        ticket = FlushTicket(self.disk, self.end_offset, self.dirty_paths, sorted(self.dirty_directories))
        try:
            for segment in self.dirty_segments:
                self._gather(segment.file(), ticket)
        except OSError as error:
            ticket.release()
            raise StorageError(f"{self.directory} cannot be flushed: {error}") from error
        ticket.fds += self.dirty_fds
        for segment in self.dirty_segments:
            segment.dirty = False
            segment.synced_bytes = segment.size_bytes
        self.dirty_segments = []
        self.dirty_fds = []
        self.dirty_paths = []
        self.dirty_directories = set()
        self.positions.put(self.end_offset, self.active, self.active.size_bytes)
        self.ticket = ticket
        return ticket

    def _gather(self, fd: int, ticket: FlushTicket) -> None:
        try:
            ticket.fds.append(self.disk.dup(fd))
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            # Connections have taken all descriptors, which is no fault of the log: it is synced here and now.
            try:
                self.disk.fdatasync(fd)
            except OSError as failure:
                self.go_offline(f"a sync failed: {failure}")
                raise

    def complete_flush(self, ticket: FlushTicket) -> int:
        """Takes note of a ticket that has run; returns the flushed offset. A failed one ends the log.

        One that lacked descriptors moves nothing: the next flush does what it has left.
        """
        assert ticket is self.ticket, "not the flush that is under way"
        self.ticket = None
        if ticket.lacks_descriptors:
            self.dirty_paths += [path for path in ticket.paths if path not in self.dirty_paths]
            self.dirty_directories.update(ticket.directories)
            return self.recovery_point
        if ticket.error is not None:
            self.go_offline(f"a sync failed: {ticket.error}")
        self.check_online()
        self.recovery_point = max(self.recovery_point, ticket.end_offset)
        return self.recovery_point

    def flush(self) -> int:
        """The whole flush at once, for callers that may block."""
        ticket = self.begin_flush()
        if ticket is None:
            return self.recovery_point
        ticket.run()
        flushed_offset = self.complete_flush(ticket)
        if ticket.lacks_descriptors:
            raise StorageError(f"{self.directory} cannot be flushed: {ticket.error}")
        return flushed_offset

    # -- removing --------------------------------------------------------------------------------------------

    def closed_segments(self) -> list[Segment]:
        """All but the active one, oldest first; each knows its base offset, size and largest timestamp."""
        return self.segments.items[:-1]

    def delete_segments_before(self, offset: int, *, now_ms: int) -> list[Segment]:
        """Deletes closed segments that end at or before `offset`; the log then starts at the next one."""
        self.check_online()
        return steps.run(removal.delete_segments_before(self, offset, now_ms))

    def delete_records_before(self, offset: int) -> int:
        """Moves the log start (DeleteRecords; -1 means the high watermark) and returns it."""
        self.check_online()
        offset = self.high_watermark if offset == -1 else offset
        if not 0 <= offset <= self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} is above the high watermark {self.high_watermark}",
            )
        removal.move_log_start(self, offset)
        return self.log_start_offset

    def truncate_to(self, offset: int, *, now_ms: int) -> bool:
        """Drops everything from `offset` on; False if there is nothing. See `LogManager.truncate_to`."""
        self.check_online()
        with self.storage_errors():
            return removal.truncate_to(self, offset, now_ms)

    def truncate_fully_and_start_at(self, offset: int, *, now_ms: int) -> None:
        """Drops everything and begins anew at `offset`."""
        self.check_online()
        with self.storage_errors():
            removal.truncate_fully_and_start_at(self, offset, now_ms)

    def create_cleaned_segment(self, base_offset: int) -> CleanedSegment:
        """A file for the cleaner to write; it becomes part of the log by `replace_segments`."""
        return CleanedSegment(self.disk, self.directory, base_offset, self.config.index_interval_bytes)

    def replace_segments(self, old: list[Segment], cleaned: CleanedSegment, *, now_ms: int) -> None:
        """Puts a finished cleaned segment in the place of consecutive closed ones, atomically."""
        self.check_online()
        steps.run(segment_swap.replace(self, old, cleaned, now_ms))

    def maybe_remove_files(self, now_ms: int) -> None:
        """Removes the files of deleted segments whose `file.delete.delay.ms` is over."""
        removal.remove_files(self, now_ms)

    # -- transactions ----------------------------------------------------------------------------------------

    def begin_verification(
        self, producer_id: int, sequence: int, epoch: int, *, supports_epoch_bump: bool, now_ms: int
    ) -> VerificationGuard | None:
        """A guard to ask the coordinator with; None if the transaction is open here already (KIP-890)."""
        self.check_online()
        return self.producers.begin_verification(
            producer_id, sequence, epoch, supports_epoch_bump=supports_epoch_bump, now_ms=now_ms
        )

    def has_ongoing_transaction(self, producer_id: int, epoch: int) -> bool:
        return self.producers.has_ongoing_transaction(producer_id, epoch)

    def active_producers(self) -> Iterator[ProducerEntry]:
        """What DescribeProducers lists. The log may go on between two of them; then one may come twice."""
        return self.producers.iterate()

    def expire_producers(self, now_ms: int) -> Steps[None]:
        return self.producers.expire(now_ms, self.config.producer_id_expiration_ms)

    # -- the rest --------------------------------------------------------------------------------------------

    def append_replicated(self, records: bytes | bytearray | memoryview, *, now_ms: int) -> AppendResult:
        """Appends batches of a leader as they are: their offsets and epochs are kept."""
        self.check_online()
        return replication.append(self, memoryview(records), now_ms)

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    def describe(self) -> dict[str, int]:
        """Figures for metrics and DescribeLogDirs."""
        return {
            "log_start_offset": self.log_start_offset,
            "last_stable_offset": self.last_stable_offset,
            "high_watermark": self.high_watermark,
            "end_offset": self.end_offset,
            "recovery_point": self.recovery_point,
            "size_bytes": self.size_bytes,
            "segment_count": len(self.segments.items),
            "producer_count": len(self.producers.entries),
            "open_transaction_count": len(self.producers.ongoing),
        }

    def close(self, *, clean: bool = True) -> None:
        """Closes all files. A clean close leaves indexes and a snapshot so that opening needs no scan."""
        if clean and not self.is_offline:
            with self.storage_errors():
                removal.write_everything(self)
            self.flush()
        removal.release(self)
