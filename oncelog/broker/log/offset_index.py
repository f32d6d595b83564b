"""The sparse offset index of a segment (`.index`): where in the `.log` file to start looking for an offset.

Byte layout: entries of 8 bytes, big-endian, ascending:

    int32  offset relative to the segment's base offset (the last offset of the batch)
    int32  position in the .log file at which that batch begins

New entries stay in memory until the segment is closed, since recovery rebuilds the index of a segment that
was not. The part that is in the file is searched there and costs no memory.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right

from oncelog.broker.log import entry_file
from oncelog.broker.log.disk import Disk

ENTRY = struct.Struct(">ii")
ENTRY_SIZE = ENTRY.size
RELATIVE_OFFSET_MAX = 2**31 - 1


class OffsetIndex:
    """`file_count` entries in the file, and behind them those that are only in memory."""

    __slots__ = ("base_offset", "disk", "file_count", "path", "positions", "relative_offsets")

    def __init__(self, disk: Disk, path: str, base_offset: int, file_count: int = 0) -> None:
        self.disk = disk
        self.path = path
        self.base_offset = base_offset
        self.file_count = file_count
        self.relative_offsets = array("i")
        self.positions = array("i")

    def __len__(self) -> int:
        return self.file_count + len(self.positions)

    def append(self, offset: int, position: int) -> None:
        self.relative_offsets.append(offset - self.base_offset)
        self.positions.append(position)

    def floor_offset(self, offset: int) -> tuple[int, int]:
        """The (offset, position) of the last entry at or below `offset`; the segment's start if none."""
        relative = min(offset - self.base_offset, RELATIVE_OFFSET_MAX)
        i = bisect_right(self.relative_offsets, relative)
        if i:
            return self.base_offset + self.relative_offsets[i - 1], self.positions[i - 1]
        entry = self._floor_in_file(0, relative)
        return (self.base_offset, 0) if entry is None else (self.base_offset + entry[0], entry[1])

    def floor_position(self, position: int) -> int:
        """The last indexed position at or below `position`, which is the beginning of a batch."""
        i = bisect_right(self.positions, min(position, RELATIVE_OFFSET_MAX))
        if i:
            return self.positions[i - 1]
        entry = self._floor_in_file(1, position)
        return 0 if entry is None else entry[1]

    def _floor_in_file(self, field: int, target: int) -> tuple[int, int] | None:
        if not self.file_count:
            return None
        return entry_file.find_floor(self.disk, self.path, ENTRY, self.file_count, field, target)

    def last(self) -> tuple[int, int]:
        """The (offset, position) of the last entry; the segment's start if there is none."""
        if self.positions:
            return self.base_offset + self.relative_offsets[-1], self.positions[-1]
        if not self.file_count:
            return self.base_offset, 0
        relative, position = entry_file.read_entry(self.disk, self.path, ENTRY, self.file_count - 1)
        return self.base_offset + relative, position

    def truncate_to_position(self, position: int) -> None:
        """Forgets entries that point at or behind `position`; the file follows at the next `write`."""
        self._load_file()
        i = bisect_left(self.positions, position)
        del self.positions[i:]
        del self.relative_offsets[i:]

    def reset(self) -> None:
        self.file_count = 0
        self.relative_offsets = array("i")
        self.positions = array("i")

    def _load_file(self) -> None:
        if not self.file_count:
            return
        data = self.disk.read_file(self.path)[: self.file_count * ENTRY_SIZE]
        interleaved = array("i", data)
        if sys.byteorder == "little":
            interleaved.byteswap()
        self.relative_offsets = interleaved[0::2] + self.relative_offsets
        self.positions = interleaved[1::2] + self.positions
        self.file_count = 0

    def write(self) -> int:
        """Brings the file up to date; returns its descriptor for the caller to sync and close."""
        interleaved = array("i", bytes(ENTRY_SIZE * len(self.positions)))
        interleaved[0::2] = self.relative_offsets
        interleaved[1::2] = self.positions
        if sys.byteorder == "little":
            interleaved.byteswap()
        fd = entry_file.write_tail(self.disk, self.path, interleaved.tobytes(), self.file_count * ENTRY_SIZE)
        self.file_count += len(self.positions)
        self.relative_offsets = array("i")
        self.positions = array("i")
        return fd
