"""The sparse time index of a segment (`.timeindex`): from a timestamp to an offset.

Byte layout: entries of 12 bytes, big-endian, ascending in both fields:

    int64  the largest timestamp seen in the segment so far
    int32  offset, relative to the base offset, of the last record of the batch that has it

An entry says that nothing up to that batch is younger than the timestamp. The last entry, added when the
segment is closed, holds the segment's largest timestamp. As with the offset index, new entries stay in
memory until then.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_right

from oncelog.broker.log import entry_file
from oncelog.broker.log.disk import Disk

ENTRY = struct.Struct(">qi")
ENTRY_SIZE = ENTRY.size
NO_TIMESTAMP = -1


class TimeIndex:
    """`file_count` entries in the file, and behind them those that are only in memory."""

    __slots__ = (
        "_last_timestamp",
        "base_offset",
        "disk",
        "file_count",
        "path",
        "relative_offsets",
        "timestamps",
    )

    def __init__(self, disk: Disk, path: str, base_offset: int, file_count: int = 0) -> None:
        self.disk = disk
        self.path = path
        self.base_offset = base_offset
        self.file_count = file_count
        self.timestamps = array("q")
        self.relative_offsets = array("i")
        self._last_timestamp: int | None = NO_TIMESTAMP if file_count == 0 else None

    def __len__(self) -> int:
        return self.file_count + len(self.timestamps)

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Adds an entry if the timestamp is above the last one."""
        if self._last_timestamp is None:
            self._last_timestamp = self.last()[0]
        if timestamp > self._last_timestamp:
            self.timestamps.append(timestamp)
            self.relative_offsets.append(offset - self.base_offset)
            self._last_timestamp = timestamp

    def last(self) -> tuple[int, int]:
        """The (timestamp, offset) of the last entry; (-1, base offset) if there is none."""
        if self.timestamps:
            return self.timestamps[-1], self.base_offset + self.relative_offsets[-1]
        if not self.file_count:
            return NO_TIMESTAMP, self.base_offset
        timestamp, relative = entry_file.read_entry(self.disk, self.path, ENTRY, self.file_count - 1)
        # What opens a segment asks for it, so that no append has to read a file after it has written its batch.
        self._last_timestamp = timestamp
        return timestamp, self.base_offset + relative

    def floor(self, timestamp: int) -> int:
        """The offset of the last entry whose timestamp is at most `timestamp`; the base offset if none."""
        i = bisect_right(self.timestamps, timestamp)
        if i:
            return self.base_offset + self.relative_offsets[i - 1]
        if not self.file_count:
            return self.base_offset
        entry = entry_file.find_floor(self.disk, self.path, ENTRY, self.file_count, 0, timestamp)
        return self.base_offset if entry is None else self.base_offset + int(entry[1])

    def truncate_to(self, offset: int) -> None:
        """Forgets entries of batches that end at or after `offset`; the file follows at the next `write`."""
        self._load_file()
        count = bisect_right(self.relative_offsets, offset - 1 - self.base_offset)
        del self.timestamps[count:]
        del self.relative_offsets[count:]
        self._last_timestamp = self.last()[0]

    def reset(self) -> None:
        self.file_count = 0
        self.timestamps = array("q")
        self.relative_offsets = array("i")
        self._last_timestamp = NO_TIMESTAMP

    def _load_file(self) -> None:
        if not self.file_count:
            return
        data = self.disk.read_file(self.path)[: self.file_count * ENTRY_SIZE]
        entries = list(ENTRY.iter_unpack(data))
        self.timestamps = array("q", (timestamp for timestamp, _ in entries)) + self.timestamps
        self.relative_offsets = array("i", (relative for _, relative in entries)) + self.relative_offsets
        self.file_count = 0

    def write(self) -> int:
        """Brings the file up to date; returns its descriptor for the caller to sync and close."""
        tail = b"".join(map(ENTRY.pack, self.timestamps, self.relative_offsets))
        fd = entry_file.write_tail(self.disk, self.path, tail, self.file_count * ENTRY_SIZE)
        self.file_count += len(self.timestamps)
        self.timestamps = array("q")
        self.relative_offsets = array("i")
        return fd
