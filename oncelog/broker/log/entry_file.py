"""Binary search in a file of fixed-size, sorted entries without keeping it open or in memory.

Indexes are read this way: a broker with ten thousand partitions must not hold descriptors or maps for each
old segment. A look-up costs one open and a handful of small reads, and a sequential reader does not look up
at all.
"""

from __future__ import annotations

import struct
from typing import Any

from oncelog.broker.log.disk import Disk

_BLOCK_BYTES = 4096


def find_floor(
    disk: Disk, path: str, layout: struct.Struct, count: int, field: int, target: int
) -> tuple[Any, ...] | None:
    """The last of the first `count` entries whose `field` is at most `target`; None if there is none."""
    fd = disk.open(path)
    try:
        return _find_floor(disk, fd, layout, count, field, target)
    finally:
        disk.close(fd)


def _find_floor(
    disk: Disk, fd: int, layout: struct.Struct, count: int, field: int, target: int
) -> tuple[Any, ...] | None:
    entries_per_block = _BLOCK_BYTES // layout.size
    low, high = 0, count
    # Invariant: every entry before `low` is at most the target, every entry from `high` on is above it.
    found: tuple[Any, ...] | None = None
    while high - low > entries_per_block:
        middle = (low + high) // 2
        entry = layout.unpack(disk.pread_exactly(fd, layout.size, middle * layout.size))
        if entry[field] <= target:
            found = entry
            low = middle + 1
        else:
            high = middle
    block = disk.pread_exactly(fd, (high - low) * layout.size, low * layout.size)
    for entry in layout.iter_unpack(block):
        if entry[field] > target:
            break
        found = entry
    return found


class Reader:
    """Reads from a file, which is opened if and when something is read."""

    __slots__ = ("_disk", "_fd", "_path")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._fd = -1

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            self._disk.close(self._fd)

    def read(self, size_bytes: int, position: int) -> bytes:
        if self._fd < 0:
            self._fd = self._disk.open(self._path)
        return self._disk.pread_exactly(self._fd, size_bytes, position)


def read_entry(disk: Disk, path: str, layout: struct.Struct, n: int) -> tuple[Any, ...]:
    fd = disk.open(path)
    try:
        return layout.unpack(disk.pread_exactly(fd, layout.size, n * layout.size))
    finally:
        disk.close(fd)


def write_tail(disk: Disk, path: str, tail: bytes, position: int) -> int:
    """Writes `tail` at `position` as the end of the file; returns the descriptor, not yet synced."""
    if position == 0:
        # Not in place: see `page_cache`.
        return disk.write_new_file(path, tail)
    fd = disk.open(path, writable=True, create=True)
    try:
        if tail:
            disk.pwrite_all(fd, tail, position)
        disk.truncate(fd, position + len(tail))
    except BaseException:
        disk.close(fd)
        raise
    return fd
