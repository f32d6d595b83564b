"""Producer snapshots outlive their use when segments are deleted, or merged by compaction.

Each segment has one at its base offset, from which recovery of the segment begins, and a clean close makes one
at the end of the log. As in Apache Kafka, all others go.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oncelog.broker.log.partition_log import PartitionLog


def remove(log: PartitionLog, start: int = 0, end: int | None = None) -> None:
    """Removes the snapshots in [start, end) that belong to no segment.

    The newest of all stays: a clean close made it, and it alone knows producers whose data is gone.
    """
    offsets = log.snapshot_offsets
    first = bisect_left(offsets, start)
    last = len(offsets) - 1
    if end is not None:
        last = min(last, bisect_left(offsets, end))
    if first >= last:
        return
    kept = []
    for offset in offsets[first:last]:
        if log.segments.begins_at(offset):
            kept.append(offset)
        else:
            log.disk.unlink_if_exists(log.snapshot_path(offset))
    offsets[first:last] = kept
