"""Deleted segments and partitions, whose files are removed after a delay, by another thread.

What is due is taken out and closed; `remove` then only knows paths. Whatever a crash leaves in between is found by its
name at the next start.
"""

from __future__ import annotations

import heapq
import os
import sys
from itertools import count
from typing import TYPE_CHECKING

from oncelog.broker.log.file_names import SEGMENT_SUFFIXES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from oncelog.broker.log.disk import Disk
    from oncelog.broker.log.segment import Segment


class DoomedSegments:
    """The deleted segments of a log, with the times at which their files are to be removed."""

    __slots__ = ("_heap", "_order")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Segment]] = []
        self._order = count()

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[Segment]:
        return (segment for _, _, segment in self._heap)

    def add(self, segments: Iterable[Segment], when_ms: int) -> None:
        for segment in segments:
            heapq.heappush(self._heap, (when_ms, next(self._order), segment))

    @property
    def next_ms(self) -> int | None:
        """When the next files are due; None if there are none."""
        return self._heap[0][0] if self._heap else None

    def take(self, now_ms: int, count_max: int = sys.maxsize) -> list[Segment]:
        """Takes out the segments that are due, the earliest first."""
        taken: list[Segment] = []
        while self._heap and self._heap[0][0] <= now_ms and len(taken) < count_max:
            taken.append(heapq.heappop(self._heap)[2])
        return taken


def retire(segments: list[Segment]) -> list[str]:
    """Closes segments that are about to be removed; returns the paths of their files."""
    for segment in segments:
        # For good: an answer that is still being sent must not go on from another file of that name.
        segment.retire()
    return [segment.path(kind) for segment in segments for kind in SEGMENT_SUFFIXES]


def remove_files(disk: Disk, paths: list[str]) -> None:
    """A partition may be deleted meanwhile, and with its directory the files of its segments move away."""
    for path in paths:
        disk.unlink_if_exists(path)


def remove_directories(disk: Disk, directories: list[str]) -> None:
    """Their names, which say that they are deleted, are durable before anything in them goes."""
    for parent in {os.path.dirname(directory) for directory in directories}:
        disk.fsync_dir(parent)
    for directory in directories:
        for name in disk.listdir(directory):
            disk.unlink(os.path.join(directory, name))
        disk.rmdir(directory)
