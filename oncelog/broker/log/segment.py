"""One segment of a log: a run of batches in a `.log` file with its indexes.

The `.log` file is nothing but record batches, one behind the other, as they go over the wire. The name of
its files is the offset at which the segment begins; see `file_names`.

Behind the batches of the active segment there may be zeros: room for the next ones. A sync of bytes within a file is
cheaper than one that also has to put the file's new length into the file system's journal, by a third or more.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress

from oncelog.broker.log.batch_scan import CorruptBatch, iter_headers
from oncelog.broker.log.disk import Disk, StorageError
from oncelog.broker.log.file_names import (
    INDEX,
    LOG,
    SEGMENT_SUFFIXES,
    TIME_INDEX,
    TXN_INDEX,
    offset_file_name,
)
from oncelog.broker.log.offset_index import ENTRY_SIZE as OFFSET_ENTRY_SIZE
from oncelog.broker.log.offset_index import OffsetIndex
from oncelog.broker.log.open_files import OpenFiles
from oncelog.broker.log.time_index import ENTRY_SIZE as TIME_ENTRY_SIZE
from oncelog.broker.log.time_index import NO_TIMESTAMP, TimeIndex
from oncelog.broker.log.txn_index import ENTRY_SIZE as TXN_ENTRY_SIZE
from oncelog.broker.log.txn_index import OFFSET_MAX, AbortedTxn, TxnIndex
from oncelog.protocol.records.batch import BatchHeader

ROOM_BYTES_MAX = 256 * 1024
ROOM_FOR_BYTES_MAX = 16 * 1024
"""Syncs of more than this gain little by it."""
_BLOCK_BYTES = 4096

_CLOSED = -1
_RETIRED = -2
"""What is in the place of a descriptor: it may be opened again, or never."""


class Segment:
    """A segment on disk. The last one of a log is active: it grows; all others only go away."""

    __slots__ = (
        "_fd",
        "_files",
        "_first_timestamp",
        "_largest_timestamp",
        "_txn_index",
        "base_offset",
        "bytes_since_index",
        "created_ms",
        "directory",
        "dirty",
        "disk",
        "file_bytes",
        "largest_timestamp_offset",
        "offset_index",
        "referenced",
        "size_bytes",
        "suffix",
        "synced_bytes",
        "time_index",
    )

    def __init__(
        self,
        disk: Disk,
        files: OpenFiles,
        directory: str,
        base_offset: int,
        *,
        sizes: dict[str, int],
        created_ms: int,
        suffix: str = "",
    ) -> None:
        """`sizes` says which files of the segment exist and how long they are; suffix is for `.cleaned`."""
        self.disk = disk
        self.directory = directory
        self.base_offset = base_offset
        self.suffix = suffix
        self.created_ms = created_ms
        self.size_bytes = sizes.get(self._name(LOG), 0)
        self.file_bytes = self.size_bytes
        """How long the file may be, also after a power cut. What is behind `size_bytes` is room, and all zeros."""
        self._txn_index: TxnIndex | None = None
        """Most segments have none."""
        if self._name(TXN_INDEX) in sizes:
            self._txn_index = TxnIndex(disk, self.path(TXN_INDEX), sizes[self._name(TXN_INDEX)])
        if self.size_bytes == 0:
            # Index files beside no records are what a truncation left; they say nothing and are overwritten.
            sizes = {}
            if self._txn_index is not None:
                self._txn_index.reset()
        self.offset_index = OffsetIndex(
            disk, self.path(INDEX), base_offset, sizes.get(self._name(INDEX), 0) // OFFSET_ENTRY_SIZE
        )
        self.time_index = TimeIndex(
            disk, self.path(TIME_INDEX), base_offset, sizes.get(self._name(TIME_INDEX), 0) // TIME_ENTRY_SIZE
        )
        self.bytes_since_index = 0
        self.dirty = False
        self.synced_bytes = 0
        """Up to where flushes have been asked to sync; what was there before us may not be synced."""
        self.referenced = False
        self.largest_timestamp_offset = base_offset
        self._largest_timestamp: int | None = None if self.size_bytes else NO_TIMESTAMP
        self._first_timestamp: int | None = None
        self._files = files
        self._fd = _CLOSED

    def __repr__(self) -> str:
        return f"Segment({self.path(LOG)}, {self.size_bytes} bytes)"

    def _name(self, kind: str) -> str:
        return offset_file_name(self.base_offset, kind) + self.suffix

    def path(self, kind: str) -> str:
        return os.path.join(self.directory, self._name(kind))

    # -- the file of records ---------------------------------------------------------------------------------

    def file(self) -> int:
        """The descriptor of the `.log` file. It may be closed after control goes back to the event loop."""
        self.referenced = True
        if self._fd < 0:
            if self._fd == _RETIRED:
                raise OSError(errno.ESTALE, "the records are gone")
            self._files.make_room()
            self._fd = self.disk.open(self.path(LOG), writable=True, create=self.size_bytes == 0)
            self._files.opened(self)
        return self._fd

    @property
    def is_open(self) -> bool:
        return self._fd >= 0

    def close_file(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, _CLOSED
            self._files.closed(self)
            self.disk.close(fd)

    def retire(self) -> None:
        """Closes the file for good: its name may become another segment's, as when a topic is created again."""
        self.close_file()
        self._fd = _RETIRED

    def append(
        self,
        data: bytes | bytearray | memoryview,
        size: int,
        last_offset: int,
        timestamp: int,
        index_interval: int,
    ) -> None:
        """Writes one batch at the end. OSError leaves bytes behind the end, which `undo_write` removes."""
        position = self.size_bytes
        written = self.disk.pwrite(self.file(), data, position)
        if written != size:
            self.disk.pwrite_all(self._fd, memoryview(data)[written:], position + written)
        self.dirty = True
        self.note_batch(position, size, last_offset, timestamp, index_interval)
        self.size_bytes = position + size

    def note_batch(self, position: int, size: int, last_offset: int, timestamp: int, index_interval: int) -> None:
        """Indexes a batch that is in the file at `position`."""
        if position == 0:
            self._first_timestamp = timestamp
        largest = self._largest_timestamp
        if largest is None:
            largest = self.largest_timestamp
        if timestamp > largest:
            self._largest_timestamp = timestamp
            self.largest_timestamp_offset = last_offset
        if self.bytes_since_index > index_interval:
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(self.largest_timestamp, self.largest_timestamp_offset)
            self.bytes_since_index = 0
        self.bytes_since_index += size

    def undo_write(self) -> None:
        """Cuts off what a failed write left behind the end: nothing, if the file could not even be opened."""
        if self._fd >= 0:
            self.disk.truncate(self._fd, self.size_bytes)
            # That the rest is gone is not durable: it has to be cut off again when the segment is closed.
            self.file_bytes = max(self.file_bytes, self.size_bytes + 1)

    def make_room(self, file_bytes_max: int) -> None:
        """To be called before a sync: one that has to write the file's new length makes it a length for many more.

        The room grows with the records, so that it never takes more than they do, or a block.
        """
        size = self.size_bytes
        if size <= self.file_bytes or size - self.synced_bytes > ROOM_FOR_BYTES_MAX:
            return
        end = size + min(size, ROOM_BYTES_MAX)
        end = min(end + -end % _BLOCK_BYTES, file_bytes_max)
        if end <= size:
            return
        # Also if that fails: some zeros may be there, to be cut off in the end.
        self.file_bytes = end
        with suppress(OSError):
            try:
                self.disk.pwrite_all(self.file(), bytes(end - size), size)
            except OSError:
                # What is left of the disk's space is for records.
                self.disk.truncate(self.file(), size)

    @property
    def has_room(self) -> bool:
        return self.file_bytes > self.size_bytes

    def cut_room(self) -> None:
        """That it is gone is durable after the next sync of the file."""
        if self.has_room:
            self.disk.truncate(self.file(), self.size_bytes)
            self.file_bytes = self.size_bytes
            self.dirty = True

    # -- when to begin the next one --------------------------------------------------------------------------

    def is_index_full(self, index_bytes: int) -> bool:
        """One slot of the time index is kept for the entry that closing adds."""
        # Asked before every append, so the lengths are not asked for by a call.
        offsets, times = self.offset_index, self.time_index
        return (
            offsets.file_count + len(offsets.positions) >= index_bytes // OFFSET_ENTRY_SIZE
            or times.file_count + len(times.timestamps) >= index_bytes // TIME_ENTRY_SIZE - 1
        )

    def waited_ms(self, now_ms: int, timestamp: int) -> int:
        """Age for rolling by time: in the records' own time if they have one."""
        first = self.first_timestamp
        return timestamp - first if first >= 0 else now_ms - self.created_ms

    @property
    def first_timestamp(self) -> int:
        """The largest timestamp of the first batch; -1 if there is no batch or it has none."""
        if self._first_timestamp is None:
            if self.size_bytes == 0:
                return NO_TIMESTAMP
            try:
                _, header = next(iter_headers(self.disk, self.file(), 0, self.size_bytes))
            except CorruptBatch as error:
                raise self.damaged() from error
            self._first_timestamp = header.max_timestamp
        return self._first_timestamp

    @property
    def largest_timestamp(self) -> int:
        """The largest timestamp in the segment, from the time index if it is not known yet; -1 if none."""
        if self._largest_timestamp is None:
            self._largest_timestamp, self.largest_timestamp_offset = self.time_index.last()
        return self._largest_timestamp

    # -- finding ---------------------------------------------------------------------------------------------

    def find(self, offset: int) -> tuple[int, BatchHeader] | None:
        """Position and header of the first batch that ends at or after `offset`; None if there is none.

        An index that leads to something else than a batch was damaged and is rebuilt from the records.
        """
        indexed, position = self.offset_index.floor_offset(offset)
        try:
            return self._scan_for(offset, indexed, position)
        except CorruptBatch:
            if position == 0:
                raise self.damaged() from None
        self.rebuild_indexes()
        _, position = self.offset_index.floor_offset(offset)
        try:
            return self._scan_for(offset, offset, position)
        except CorruptBatch as error:
            raise self.damaged() from error

    def _scan_for(self, offset: int, indexed: int, position: int) -> tuple[int, BatchHeader] | None:
        start = position
        self._check_indexed(start)
        for position, header in iter_headers(self.disk, self.file(), start, self.size_bytes):
            if position == start and start and header.base_offset > indexed:
                raise CorruptBatch(position, f"the index says {indexed}")
            if header.base_offset + header.last_offset_delta >= offset:
                return position, header
        return None

    def _check_indexed(self, position: int) -> None:
        if position and position >= self.size_bytes:
            raise CorruptBatch(position, f"the index points behind the end at {self.size_bytes}")

    def damaged(self) -> StorageError:
        return StorageError(f"{self.path(LOG)} is damaged")

    def read_end(self) -> tuple[int, int]:
        """(next offset, position behind the last whole batch), from the last index entry on.

        Raises CorruptBatch if the file does not end with a whole batch.
        """
        next_offset = self.base_offset
        indexed, since = self.offset_index.last()
        self._check_indexed(since)
        for position, header in iter_headers(self.disk, self.file(), since, self.size_bytes):
            if position == since and since and header.base_offset > indexed:
                raise CorruptBatch(position, f"the index says {indexed}")
            next_offset = header.base_offset + header.last_offset_delta + 1
            if header.max_timestamp > self.largest_timestamp:
                self._largest_timestamp = header.max_timestamp
                self.largest_timestamp_offset = next_offset - 1
        self.bytes_since_index = self.size_bytes - since
        return next_offset, self.size_bytes

    # -- indexes ---------------------------------------------------------------------------------------------

    @property
    def has_aborted(self) -> bool:
        """Whether a marker in this segment has aborted a transaction."""
        return self._txn_index is not None and not self._txn_index.is_empty

    def prepare_abort(self) -> None:
        """Does the part of `add_aborted` that may fail."""
        if self._txn_index is not None:
            self._txn_index.prepare_append()

    def add_aborted(self, txn: AbortedTxn) -> None:
        if self._txn_index is None:
            self._txn_index = TxnIndex(self.disk, self.path(TXN_INDEX))
        self._txn_index.append(txn)

    def collect_aborted(self, start: int, end: int, into: list[AbortedTxn]) -> bool:
        """Adds the transactions aborted in this segment that touch [start, end); True if no later one can touch it."""
        return self._txn_index is not None and self._txn_index.collect(start, end, into)

    def end_of_aborts(self, offset: int, count: int) -> int:
        """Where to end a read from `offset` for it to have about `count` abort markers."""
        return OFFSET_MAX if self._txn_index is None else self._txn_index.end_of(offset, count)

    def copy_txn_index(self) -> TxnIndex | None:
        """The index of aborted transactions for another thread."""
        return None if self._txn_index is None else self._txn_index.copy()

    def reset_indexes(self) -> None:
        """Forgets what the indexes say before they are built anew by `note_batch` and `add_aborted`."""
        self.offset_index.reset()
        self.time_index.reset()
        if self._txn_index is not None:
            self._txn_index.reset()
        self._largest_timestamp = NO_TIMESTAMP
        self.largest_timestamp_offset = self.base_offset
        self.bytes_since_index = 0
        self._first_timestamp = None

    def write_indexes(self) -> list[int]:
        """Brings the index files up to date; returns their descriptors for the caller to sync and close."""
        self.time_index.maybe_append(self.largest_timestamp, self.largest_timestamp_offset)
        fds = [self.offset_index.write()]
        try:
            fds.append(self.time_index.write())
            txn_index_fd = None if self._txn_index is None else self._txn_index.write()
            if txn_index_fd is not None:
                fds.append(txn_index_fd)
        except BaseException:
            for fd in fds:
                self.disk.close(fd)
            raise
        return fds

    def rebuild_indexes(self, index_interval: int = 4096) -> None:
        """Builds the offset and time index of a closed segment from its records."""
        self.offset_index.reset()
        self.time_index.reset()
        self._largest_timestamp = NO_TIMESTAMP
        self.bytes_since_index = 0
        try:
            for position, header in iter_headers(self.disk, self.file(), 0, self.size_bytes):
                self.note_batch(position, header.size_bytes, header.last_offset, header.max_timestamp, index_interval)
        except CorruptBatch as error:
            raise StorageError(f"{self.path(LOG)} is damaged {error}") from error
        self.time_index.maybe_append(self.largest_timestamp, self.largest_timestamp_offset)
        for fd in (self.offset_index.write(), self.time_index.write()):
            try:
                self.disk.fdatasync(fd)
            finally:
                self.disk.close(fd)

    def truncate(self, position: int, offset: int) -> None:
        """Cuts the segment at a batch that begins at `position` with `offset`, durably.

        Without the sync, old batches could show up again behind new ones after a power cut.
        """
        self.disk.truncate(self.file(), position)
        self.disk.fdatasync(self.file())
        self.size_bytes = self.file_bytes = position
        self.synced_bytes = min(self.synced_bytes, position)
        self.offset_index.truncate_to_position(position)
        self.time_index.truncate_to(offset)
        if self._txn_index is not None:
            self._txn_index.truncate_to(offset)
        self._largest_timestamp, self.largest_timestamp_offset = self.time_index.last()
        if position == 0:
            self._first_timestamp = None
        self.read_end()

    def sizes(self) -> dict[str, int]:
        """How long the files are, once the indexes are written."""
        sizes = {
            LOG: self.size_bytes,
            INDEX: len(self.offset_index) * OFFSET_ENTRY_SIZE,
            TIME_INDEX: len(self.time_index) * TIME_ENTRY_SIZE,
        }
        if self._txn_index is not None:
            sizes[TXN_INDEX] = self._txn_index.count * TXN_ENTRY_SIZE
        return sizes

    # -- leaving ---------------------------------------------------------------------------------------------

    def rename(self, suffix: str) -> None:
        """Gives the files another suffix, the records first, so that what remains names no segment."""
        for kind in SEGMENT_SUFFIXES:
            source = self.path(kind)
            try:
                self.disk.rename(
                    source, os.path.join(self.directory, offset_file_name(self.base_offset, kind) + suffix)
                )
            except FileNotFoundError:
                if kind == LOG:
                    raise
        self.suffix = suffix
        self.offset_index.path = self.path(INDEX)
        self.time_index.path = self.path(TIME_INDEX)
        if self._txn_index is not None:
            self._txn_index.path = self.path(TXN_INDEX)

    def unlink(self) -> None:
        self.retire()
        for kind in SEGMENT_SUFFIXES:
            self.disk.unlink_if_exists(self.path(kind))
