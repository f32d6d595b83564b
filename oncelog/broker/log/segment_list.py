"""The segments of a log in order of their base offsets. The last one is active."""

from __future__ import annotations

from bisect import bisect_right

from oncelog.broker.log.segment import Segment


class SegmentList:
    __slots__ = ("base_offsets", "items")

    def __init__(self, items: list[Segment]) -> None:
        self.items = items
        self.base_offsets = [segment.base_offset for segment in items]

    def append(self, segment: Segment) -> None:
        assert not self.items or segment.base_offset > self.base_offsets[-1]
        self.items.append(segment)
        self.base_offsets.append(segment.base_offset)

    def floor_index(self, offset: int) -> int:
        """The place of the segment in which `offset` is or would be; the first one for lower offsets."""
        return max(0, bisect_right(self.base_offsets, offset) - 1)

    def next_base_offset(self, segment: Segment) -> int:
        """Where the segment after a closed one begins."""
        return self.base_offsets[self.floor_index(segment.base_offset) + 1]

    def replace(self, start: int, stop: int, items: list[Segment]) -> list[Segment]:
        """Puts `items` in the place of [start, stop) and returns what was there."""
        removed = self.items[start:stop]
        self.items[start:stop] = items
        self.base_offsets[start:stop] = [segment.base_offset for segment in items]
        return removed

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.items)
