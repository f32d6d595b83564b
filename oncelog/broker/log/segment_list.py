"""The segments of a log in order of their base offsets. The last one is active."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from oncelog.broker.log.segment import Segment


class SegmentList:
    __slots__ = ("_aborted_in", "_closed_bytes", "base_offsets", "items")

    def __init__(self, items: list[Segment]) -> None:
        self.items = items
        self.base_offsets = [segment.base_offset for segment in items]
        self._aborted_in = [segment.base_offset for segment in items if segment.has_aborted]
        """Base offsets of the segments in which transactions were aborted."""
        self._closed_bytes = sum(segment.size_bytes for segment in items[:-1])

    def append(self, segment: Segment) -> None:
        if self.items:
            assert segment.base_offset > self.base_offsets[-1]
            self._closed_bytes += self.items[-1].size_bytes
        self.items.append(segment)
        self.base_offsets.append(segment.base_offset)

    def floor_index(self, offset: int) -> int:
        """The place of the segment in which `offset` is or would be; the first one for lower offsets."""
        return max(0, bisect_right(self.base_offsets, offset) - 1)

    def begins_at(self, offset: int) -> bool:
        """Whether a segment has this base offset."""
        return bool(self.items) and self.base_offsets[self.floor_index(offset)] == offset

    def next_base_offset(self, segment: Segment) -> int:
        """Where the segment after a closed one begins."""
        return self.base_offsets[self.floor_index(segment.base_offset) + 1]

    def note_aborted(self, segment: Segment) -> None:
        """A transaction was aborted by a marker in `segment`."""
        i = bisect_left(self._aborted_in, segment.base_offset)
        if i == len(self._aborted_in) or self._aborted_in[i] != segment.base_offset:
            self._aborted_in.insert(i, segment.base_offset)

    def with_aborted(self, offset: int) -> Iterator[Segment]:
        """The segments from that of `offset` on in which transactions were aborted."""
        first = self.base_offsets[self.floor_index(offset)]
        for i in range(bisect_left(self._aborted_in, first), len(self._aborted_in)):
            yield self.items[self.floor_index(self._aborted_in[i])]

    def replace(self, start: int, stop: int, items: list[Segment]) -> list[Segment]:
        """Puts `items` in the place of [start, stop) and returns what was there."""
        removed = self.items[start:stop]
        if stop < len(self.items):
            self._closed_bytes += sum(segment.size_bytes for segment in items)
            self._closed_bytes -= sum(segment.size_bytes for segment in removed)
            self.items[start:stop] = items
        else:
            self.items[start:stop] = items
            self._closed_bytes = sum(segment.size_bytes for segment in self.items[:-1])
        self.base_offsets[start:stop] = [segment.base_offset for segment in items]
        if removed:
            aborted_in = self._aborted_in
            first = bisect_left(aborted_in, removed[0].base_offset)
            last = bisect_right(aborted_in, removed[-1].base_offset)
            aborted_in[first:last] = [segment.base_offset for segment in items if segment.has_aborted]
        return removed

    @property
    def size_bytes(self) -> int:
        return self._closed_bytes + self.items[-1].size_bytes if self.items else 0
