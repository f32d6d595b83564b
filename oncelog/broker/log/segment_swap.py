"""Replacing closed segments by a cleaned one, atomically and in Apache Kafka's manner.

    1. the cleaner writes `<base>.log.cleaned` and its indexes, and syncs them
    2. all are renamed to `.swap`, the records last; the names are synced
    3. the old segments are renamed to `.deleted`
    4. `.swap` is removed from the names, the records first; the names are synced

A crash in 1 or 2 leaves a `.cleaned` file: everything new is thrown away, the old segments are whole. A crash
in 3 or 4 leaves `.swap` files and no `.cleaned` one: the swap is finished when the log is opened.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from oncelog.broker.log import stray_snapshots
from oncelog.broker.log.batch_scan import iter_headers
from oncelog.broker.log.disk import Disk
from oncelog.broker.log.file_names import (
    CLEANED,
    DELETED,
    LOG,
    SEGMENT_SUFFIXES,
    SWAP,
    offset_file_name,
    offset_of_file,
)
from oncelog.broker.log.open_files import OpenFiles
from oncelog.broker.log.segment import Segment
from oncelog.broker.log.txn_index import AbortedTxn

if TYPE_CHECKING:
    from oncelog.broker.log.partition_log import PartitionLog
    from oncelog.broker.log.steps import Steps


class CleanedSegment:
    """A segment under construction. Nothing of it is part of the log before `replace`."""

    __slots__ = ("base_offset", "disk", "index_interval_bytes", "segment")

    def __init__(self, disk: Disk, directory: str, base_offset: int, index_interval_bytes: int) -> None:
        self.disk = disk
        self.base_offset = base_offset
        self.index_interval_bytes = index_interval_bytes
        # A list of open files of its own: the cleaner runs in a thread of its own.
        self.segment = Segment(disk, OpenFiles(), directory, base_offset, sizes={}, created_ms=-1, suffix=CLEANED)
        for kind in SEGMENT_SUFFIXES:
            disk.unlink_if_exists(self.segment.path(kind))
        self.segment.file()

    def append(self, batch: bytes | bytearray | memoryview, last_offset: int, max_timestamp: int) -> None:
        self.segment.append(batch, len(batch), last_offset, max_timestamp, self.index_interval_bytes)

    def add_aborted(self, txn: AbortedTxn) -> None:
        self.segment.add_aborted(txn)

    @property
    def size_bytes(self) -> int:
        return self.segment.size_bytes

    def finish(self) -> None:
        """Writes the indexes and syncs everything."""
        fds = [*self.segment.write_indexes(), self.disk.dup(self.segment.file())]
        try:
            for fd in fds:
                self.disk.fdatasync(fd)
        finally:
            for fd in fds:
                self.disk.close(fd)
        self.segment.close_file()

    def discard(self) -> None:
        self.segment.unlink()

    def as_segment_of(self, log: PartitionLog, now_ms: int) -> Segment:
        """The finished segment, whose files have their final names by now."""
        sizes = {offset_file_name(self.base_offset, kind): size for kind, size in self.segment.sizes().items()}
        return Segment(self.disk, log.files, log.directory, self.base_offset, sizes=sizes, created_ms=now_ms)


def replace(log: PartitionLog, old: list[Segment], cleaned: CleanedSegment, now_ms: int) -> Steps[bool]:
    """Nothing else may take segments out of the log until it has ended. False if the log went offline meanwhile."""
    start = log.segments.floor_index(old[0].base_offset)
    stop = start + len(old)
    assert log.segments.items[start:stop] == old, "the segments are not consecutive"
    assert stop < len(log.segments.items), "the active segment cannot be replaced"
    assert cleaned.base_offset == old[0].base_offset
    # A crash must not find a gap that cleaning made where it looks for torn writes.
    assert log.segments.base_offsets[stop] <= log.checkpointed_recovery_point, "not durable yet"
    with log.storage_errors():
        if not (yield from _swap_files(log, old, cleaned)):
            return False
    # Segments may have been added behind them, but these are where they were.
    new = cleaned.as_segment_of(log, now_ms)
    log.segments.replace(start, stop, [new])
    log.positions.clear()
    stray_snapshots.remove(log, cleaned.base_offset, log.segments.base_offsets[start + 1])
    log.doomed.add(old, now_ms + log.config.file_delete_delay_ms)
    return True


def _swap_files(log: PartitionLog, old: list[Segment], cleaned: CleanedSegment) -> Steps[bool]:
    disk, directory = log.disk, log.directory
    kinds = [kind for kind in SEGMENT_SUFFIXES if disk.exists(cleaned.segment.path(kind))]
    for kind in reversed(kinds):
        _rename(disk, directory, cleaned.base_offset, kind, CLEANED, SWAP)
    yield partial(disk.fsync_dir, directory)
    if log.is_offline:
        return False
    # From here on the old segments are read from the files with their new names, until the new one is in their place.
    for segment in old:
        segment.rename(DELETED)
    for kind in kinds:
        _rename(disk, directory, cleaned.base_offset, kind, SWAP, "")
    yield partial(disk.fsync_dir, directory)
    return not log.is_offline


def _rename(disk: Disk, directory: str, base_offset: int, kind: str, before: str, after: str) -> None:
    path = os.path.join(directory, offset_file_name(base_offset, kind))
    disk.rename(path + before, path + after)


def finish_interrupted(disk: Disk, directory: str, sizes: dict[str, int]) -> dict[str, int]:
    """Ends a replacement or deletion that a crash interrupted; returns the files that are there then."""
    names = [name for name in sizes if name.endswith((DELETED, CLEANED, SWAP, ".tmp"))]
    if not names:
        return sizes
    cleaned = [offset_of_file(name) or 0 for name in names if name.endswith(CLEANED)]
    finished = []
    for name in names:
        is_whole = name.endswith(SWAP) and not (cleaned and (offset_of_file(name) or 0) >= min(cleaned))
        if is_whole:
            finished.append(name)
        else:
            disk.unlink(os.path.join(directory, name))
    _finish_swap(disk, directory, finished)
    disk.fsync_dir(directory)
    return disk.file_sizes(directory)


def _finish_swap(disk: Disk, directory: str, swap_names: list[str]) -> None:
    for name in swap_names:
        if name.endswith(LOG + SWAP):
            base_offset = offset_of_file(name) or 0
            end_offset = _end_of_file(disk, os.path.join(directory, name), base_offset)
            _unlink_segments(disk, directory, base_offset, end_offset)
    for name in sorted(swap_names, key=lambda name: not name.endswith(LOG + SWAP)):
        path = os.path.join(directory, name)
        disk.rename(path, path.removesuffix(SWAP))


def _end_of_file(disk: Disk, path: str, base_offset: int) -> int:
    fd = disk.open(path)
    try:
        end_offset = base_offset
        for _, header in iter_headers(disk, fd, 0, disk.size_bytes(fd)):
            end_offset = header.last_offset + 1
        return end_offset
    finally:
        disk.close(fd)


def _unlink_segments(disk: Disk, directory: str, start: int, end: int) -> None:
    """Removes the files of segments that begin in [start, end): their records are in the swapped one."""
    for name in disk.file_sizes(directory):
        offset = offset_of_file(name)
        if offset is not None and start <= offset < end and name.endswith(SEGMENT_SUFFIXES):
            disk.unlink(os.path.join(directory, name))
