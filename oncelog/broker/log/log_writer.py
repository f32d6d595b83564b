"""Appending to the log of one partition: the hot path.

A batch is opaque. Its producer's state is checked, its offset and leader epoch are patched in place, and it
is written once; indexes and producer state follow in memory. See `partition_log` for the rest of a log.
"""

from __future__ import annotations

import logging
import os
from bisect import bisect_left, insort
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from oncelog.broker.log import large_snapshots, leader_epochs, producer_snapshot, retry_window
from oncelog.broker.log.disk import Disk, StorageError
from oncelog.broker.log.file_names import SNAPSHOT, offset_file_name
from oncelog.broker.log.flush import FlushTicket
from oncelog.broker.log.leader_epochs import LeaderEpochs
from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.log_reader import PositionCache
from oncelog.broker.log.offset_index import RELATIVE_OFFSET_MAX
from oncelog.broker.log.open_files import OpenFiles
from oncelog.broker.log.pending_deletes import DoomedSegments
from oncelog.broker.log.producer_entry import ProducerBatch
from oncelog.broker.log.producer_state import TRANSACTIONAL, AppendOrigin, CompletedTxn, ProducerState
from oncelog.broker.log.segment import Segment
from oncelog.broker.log.segment_list import SegmentList
from oncelog.broker.log.txn_index import AbortedTxn
from oncelog.broker.log.verification import VerificationGuard
from oncelog.named_tuple import NamedTuple
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.records.batch import (
    BatchHeader,
    TimestampType,
    patch_max_timestamp_log_append,
    patch_offset_and_epoch,
    read_header,
)
from oncelog.protocol.records.control import ControlType, EndTxnMarker, build_marker_batch

logger = logging.getLogger(__name__)

_CLIENT = AppendOrigin.CLIENT


class AppendResult(NamedTuple):
    first_offset: int
    last_offset: int
    log_append_time: int
    log_start_offset: int
    duplicate: bool
    size_bytes: int


class LogWriter:
    """State of a log, and how it grows."""

    __slots__ = (
        "_offline",
        "active",
        "checkpointed_recovery_point",
        "closed_at",
        "config",
        "directory",
        "dirty_directories",
        "dirty_fds",
        "dirty_paths",
        "dirty_segments",
        "disk",
        "doomed",
        "end_offset",
        "epochs",
        "files",
        "high_watermark",
        "log_start_offset",
        "partition",
        "positions",
        "producers",
        "recovery_point",
        "segments",
        "snapshot_offsets",
        "snapshots_due",
        "ticket",
        "topic",
        "topic_id",
    )

    def __init__(self, directory: str, config: LogConfig, disk: Disk, files: OpenFiles) -> None:
        self.directory = directory
        self.config = config
        self.disk = disk
        self.files = files
        self.topic = ""
        self.partition = -1
        self.topic_id: bytes | None = None
        self.segments = SegmentList([])
        self.active: Segment
        self.epochs = LeaderEpochs()
        self.producers = ProducerState()
        self.positions = PositionCache()
        self.snapshot_offsets: list[int] = []
        self.snapshots_due: set[LogWriter] = set()
        """Logs with a large snapshot to be written, see `large_snapshots`: of all logs of a directory."""
        self.log_start_offset = 0
        self.end_offset = 0
        self.high_watermark = 0
        self.recovery_point = 0
        self.checkpointed_recovery_point = 0
        """The recovery point that a crash would start from; the log manager moves it with its checkpoint."""
        self.closed_at = -1
        """Offset of the snapshot that shows that the log was closed there and all its indexes are good."""
        self.dirty_segments: list[Segment] = []
        self.dirty_fds: list[int] = []
        self.dirty_paths: list[str] = []
        """Files that the next flush opens to sync them, so that new partitions hold no descriptors for them."""
        self.dirty_directories: set[str] = set()
        self.doomed = DoomedSegments()
        """Deleted segments whose files still exist under another name."""
        self.ticket: FlushTicket | None = None
        self._offline: str | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.directory}, [{self.log_start_offset}, {self.end_offset}))"

    # -- offline ---------------------------------------------------------------------------------------------

    @property
    def is_offline(self) -> bool:
        return self._offline is not None

    def check_online(self) -> None:
        if self._offline is not None:
            raise StorageError(self._offline)

    def go_offline(self, reason: str) -> None:
        self._offline = self._offline or f"{self.directory} is offline: {reason}"

    @contextmanager
    def storage_errors(self) -> Iterator[None]:
        """A structural change that fails half-way leaves memory and disk apart: the log goes offline."""
        try:
            yield
        except OSError as error:
            self.go_offline(str(error))
            raise StorageError(f"{self.directory}: {error}") from error

    # -- appending -------------------------------------------------------------------------------------------

    def append(
        self,
        records: bytearray | memoryview,
        header: BatchHeader,
        *,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        leader_epoch: int,
        now_ms: int,
        guard: VerificationGuard | None = None,
    ) -> AppendResult:
        """Appends one validated batch, which is changed in place: it gets its offset and leader epoch.

        `guard` is what `begin_verification` gave, for the first batch of a transaction (KIP-890).
        """
        if self._offline is not None:
            raise StorageError(self._offline)
        size = len(records)
        config = self.config
        if size > config.max_message_bytes:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"{size} bytes are more than max.message.bytes")
        if size > config.segment_bytes:
            raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, f"{size} bytes are more than segment.bytes")
        producers = self.producers
        producer_id = header.producer_id
        if producer_id >= 0:
            if origin == _CLIENT:
                batch = producers.find_duplicate(header)
                if batch is not None:
                    return self._duplicate(batch)
            if header.attributes & TRANSACTIONAL and config.transaction_verification:
                producers.check_verified(header, guard)
            try:
                producers.check_data_batch(header, origin)
            except KafkaError as error:
                batch = self._recall_duplicate(header, error)
                if batch is None:
                    raise
                return self._duplicate(batch)
        timestamp = header.max_timestamp
        log_append_time = -1
        if config.message_timestamp_type == TimestampType.LOG_APPEND_TIME:
            patch_max_timestamp_log_append(records, 0, now_ms)
            timestamp = log_append_time = now_ms
        elif origin == _CLIENT and timestamp >= 0:
            self._check_timestamp(timestamp, now_ms)
        first_offset = self.end_offset
        last_offset = first_offset + header.last_offset_delta
        patch_offset_and_epoch(records, 0, first_offset, leader_epoch)
        self.write_batch(records, size, first_offset, last_offset, timestamp, leader_epoch, now_ms)
        if producer_id >= 0:
            producers.apply_data_batch(header, first_offset, last_offset, timestamp, now_ms)
        return AppendResult(first_offset, last_offset, log_append_time, self.log_start_offset, False, size)

    def _duplicate(self, batch: ProducerBatch) -> AppendResult:
        """The answer to a batch that is in the log already."""
        stamp = batch.timestamp if self.config.message_timestamp_type == TimestampType.LOG_APPEND_TIME else -1
        return AppendResult(batch.first_offset, batch.last_offset, stamp, self.log_start_offset, True, 0)

    def _recall_duplicate(self, header: BatchHeader, error: KafkaError) -> ProducerBatch | None:
        """A batch out of order may be one that the snapshot did not remember."""
        entry = self.producers.entries.get(header.producer_id)
        if error.code != ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER or entry is None or not entry.restored:
            return None
        retry_window.recall(self, entry)
        return self.producers.find_duplicate(header)

    def _check_timestamp(self, timestamp: int, now_ms: int) -> None:
        config = self.config
        if (
            timestamp - now_ms > config.message_timestamp_after_max_ms
            or now_ms - timestamp > config.message_timestamp_before_max_ms
        ):
            raise KafkaError(
                ErrorCode.INVALID_TIMESTAMP, f"timestamp {timestamp} is too far from the broker's {now_ms}"
            )

    def append_marker(
        self,
        *,
        producer_id: int,
        producer_epoch: int,
        commit: bool,
        coordinator_epoch: int,
        leader_epoch: int,
        now_ms: int,
        transaction_version: int = 0,
    ) -> AppendResult:
        """Appends the control batch that ends a producer's transaction on this partition."""
        self.check_online()
        producers = self.producers
        producers.check_marker(producer_id, producer_epoch, coordinator_epoch, transaction_version=transaction_version)
        if not commit:
            self.prepare_for_abort()
        marker = EndTxnMarker(ControlType.COMMIT if commit else ControlType.ABORT, coordinator_epoch)
        offset = self.end_offset
        batch = build_marker_batch(
            marker,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            timestamp=now_ms,
            base_offset=offset,
            leader_epoch=leader_epoch,
        )
        log_append_time = -1
        if self.config.message_timestamp_type == TimestampType.LOG_APPEND_TIME:
            patch_max_timestamp_log_append(batch, 0, now_ms)
            log_append_time = now_ms
        self.write_batch(batch, len(batch), offset, offset, now_ms, leader_epoch, now_ms)
        self.apply_control(read_header(batch), marker, now_ms)
        return AppendResult(offset, offset, log_append_time, self.log_start_offset, False, len(batch))

    def prepare_for_abort(self) -> None:
        """Reads the index that it is added to: once the marker is written, nothing of what it does may fail."""
        try:
            self.active.prepare_abort()
        except OSError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.directory}: {error}") from error

    def apply_control(self, header: BatchHeader, marker: EndTxnMarker, now_ms: int) -> None:
        """Takes note of a marker that is in the active segment: the transaction ends, an abort is indexed."""
        producers = self.producers
        txn = producers.apply_marker(
            header.producer_id,
            header.producer_epoch,
            marker.coordinator_epoch,
            aborted=marker.type == ControlType.ABORT,
            offset=header.base_offset,
            timestamp=header.max_timestamp,
            now_ms=now_ms,
        )
        if txn is not None:
            self._complete_txn(txn)

    def _complete_txn(self, txn: CompletedTxn) -> None:
        stable_offset = self.producers.complete(txn)
        if txn.aborted:
            self.active.add_aborted(AbortedTxn(txn.producer_id, txn.first_offset, txn.last_offset, stable_offset))
            self.segments.note_aborted(self.active)

    def write_batch(
        self,
        data: bytes | bytearray | memoryview,
        size: int,
        first_offset: int,
        last_offset: int,
        timestamp: int,
        leader_epoch: int,
        now_ms: int,
    ) -> None:
        """Puts a batch that has its offsets at the end of the log, in a new segment if need be."""
        segment = self.active
        config = self.config
        try:
            is_full = last_offset - segment.base_offset > RELATIVE_OFFSET_MAX or (
                segment.size_bytes
                and (
                    segment.size_bytes > config.segment_bytes - size
                    or segment.waited_ms(now_ms, timestamp) > config.segment_ms - config.segment_jitter_ms
                    or segment.is_index_full(config.segment_index_bytes)
                )
            )
        except OSError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.directory}: {error}") from error
        if is_full:
            self.roll(first_offset, now_ms)
            segment = self.active
        if leader_epoch > self.epochs.latest:
            self.assign_epoch(leader_epoch, first_offset)
        try:
            segment.append(data, size, last_offset, timestamp, config.index_interval_bytes)
        except OSError as error:
            self._undo_write(segment, error)
        self.end_offset = last_offset + 1

    def _undo_write(self, segment: Segment, cause: OSError) -> NoReturn:
        try:
            segment.undo_write()
        except OSError as error:
            self.go_offline(f"a write failed ({cause}) and could not be undone ({error})")
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.directory}: {cause}") from cause

    def assign_epoch(self, leader_epoch: int, start_offset: int) -> None:
        """Notes that a leader begins to write. The file is on disk before its first record is."""
        first = not self.epochs.epochs
        self.epochs.assign(leader_epoch, start_offset)
        if not self.epochs.dirty:
            return
        try:
            self.write_epochs(durably=not first)
        except OSError as error:
            self.epochs.truncate_from_end(start_offset)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.directory}: {error}") from error

    def write_epochs(self, *, durably: bool) -> None:
        """The first epoch of a log may wait for the flush: should it be lost, it is found in the records."""
        path = os.path.join(self.directory, leader_epochs.FILE_NAME)
        if durably:
            self.disk.write_file_durably(path, self.epochs.encode())
        else:
            self.write_small_file(path, self.epochs.encode())
        self.epochs.dirty = False

    def roll(self, base_offset: int | None = None, now_ms: int = -1) -> None:
        """Closes the active segment and begins the next, with a producer snapshot at its base offset."""
        self.check_online()
        base_offset = self.end_offset if base_offset is None else base_offset
        old = self.active
        if base_offset == old.base_offset:
            return
        new = Segment(self.disk, self.files, self.directory, base_offset, sizes={}, created_ms=now_ms)
        try:
            self.forget_closing()
            if old.has_room:
                # The descriptor first: a cut that nobody is sure to sync could be undone by a power cut.
                self.add_dirty_file(self.disk.dup(old.file()))
                old.cut_room()
            for fd in old.write_indexes():
                self.add_dirty_file(fd)
            if self._is_flushed_up_to(base_offset):
                # Before the snapshot is there, which would vouch for the indexes.
                self.sync_dirty_files()
            if not large_snapshots.maybe_begin(self, base_offset):
                self.write_snapshot(base_offset)
            # Comes last: an empty segment left behind by a failure would end the log before its records do.
            new.file()
        except OSError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.directory}: {error}") from error
        if old.dirty and old not in self.dirty_segments:
            # Not what a flush has taken: its file may have been closed since, and would have to be opened for nothing.
            self.dirty_segments.append(old)
        self.dirty_directories.add(self.directory)
        new.dirty = True
        self.segments.append(new)
        self.active = new
        self.positions.put(base_offset, new, 0)
        logger.debug("%s: rolled a new segment at offset %d", self.directory, base_offset)

    def _is_flushed_up_to(self, offset: int) -> bool:
        """True if the recovery point is, or is about to be, at the end of a segment that is closed there.

        Recovery does not look at a segment that ends at the recovery point. So its indexes must be on disk
        before they could be needed; else the next flush is early enough.
        """
        return self.recovery_point >= offset or (self.ticket is not None and self.ticket.end_offset >= offset)

    def forget_closing(self) -> None:
        """Before the index files change, what vouches for them goes, and stays away after a power cut."""
        if self.has_snapshot(self.closed_at):
            self.disk.unlink_if_exists(self.snapshot_path(self.closed_at))
            self.snapshot_offsets.remove(self.closed_at)
            self.disk.fsync_dir(self.directory)
        self.closed_at = -1

    def sync_dirty_files(self) -> None:
        """Syncs the small files now, instead of with the next flush. Ends the log if that fails."""
        try:
            for fd in self.dirty_fds:
                self.disk.fdatasync(fd)
            self.disk.fsync_dir(self.directory)
        except OSError as error:
            self.go_offline(f"a sync failed: {error}")
            raise
        fds, self.dirty_fds = self.dirty_fds, []
        for fd in fds:
            self.disk.close(fd)

    def write_snapshot(self, offset: int) -> None:
        """Writes the producer state as of `offset`, to be synced with the next flush."""
        path = self.snapshot_path(offset)
        self.add_dirty_file(self.disk.write_new_file(path, producer_snapshot.encode(self.producers.entries.values())))
        self.note_snapshot(offset)

    def note_snapshot(self, offset: int) -> None:
        """There is a snapshot at `offset`."""
        if not self.has_snapshot(offset):
            insort(self.snapshot_offsets, offset)

    def has_snapshot(self, offset: int) -> bool:
        i = bisect_left(self.snapshot_offsets, offset)
        return i < len(self.snapshot_offsets) and self.snapshot_offsets[i] == offset

    def snapshot_path(self, offset: int) -> str:
        return os.path.join(self.directory, offset_file_name(offset, SNAPSHOT))

    def add_dirty_file(self, fd: int) -> None:
        """Keeps the descriptor of a new file until a flush has synced it."""
        self.dirty_fds.append(fd)
        self.dirty_directories.add(self.directory)

    def write_small_file(self, path: str, data: bytes) -> None:
        """Writes a file that is synced with the next flush, and made anew when the log is opened should it be lost.

        Only for that reason its descriptor need not be kept, which knew of a failed write-back.
        """
        self.disk.close(self.disk.write_new_file(path, data))
        if path not in self.dirty_paths:
            self.dirty_paths.append(path)
        self.dirty_directories.add(self.directory)

    @property
    def holds_files_to_sync(self) -> bool:
        """True if closed segments, or descriptors of small files, are kept until a flush."""
        return bool(self.dirty_fds or self.dirty_segments)
