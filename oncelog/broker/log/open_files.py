"""A soft limit on the open `.log` files of all partitions of a broker.

A segment's file is opened when it is first used. When too many are open, the one that was not used since
the last look is closed. Files with data that is not synced stay open: the kernel reports a failed write-back
to descriptors that were open when it happened, and that report must not be lost.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oncelog.broker.log.segment import Segment

DEFAULT_MAX = 512


class OpenFiles:
    """Segments with an open descriptor, in the order of the clock algorithm (second chance)."""

    __slots__ = ("_ring", "files_max")

    def __init__(self, files_max: int = DEFAULT_MAX) -> None:
        self.files_max = files_max
        self._ring: deque[Segment] = deque()

    def __len__(self) -> int:
        return len(self._ring)

    def make_room(self) -> None:
        """Comes before another file is opened."""
        if len(self._ring) >= self.files_max:
            self._close_one()

    def opened(self, segment: Segment) -> None:
        self._ring.append(segment)

    def closed(self, segment: Segment) -> None:
        """A segment closed its file by itself, as it does when it is deleted."""
        self._ring.remove(segment)

    def _close_one(self) -> None:
        for _ in range(2 * len(self._ring)):
            segment = self._ring[0]
            if segment.referenced or segment.dirty:
                segment.referenced = False
                self._ring.rotate(-1)
                continue
            segment.close_file()
            return
