"""Producer snapshots outlive their use when segments are deleted, or merged by compaction.

Each segment has one at its base offset, from which recovery of the segment begins, and a clean close makes one
at the end of the log. As in Apache Kafka, all others go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oncelog.broker.log.partition_log import PartitionLog


def remove(log: PartitionLog, end: int | None = None) -> None:
    """Removes the snapshots below `end` that belong to no segment.

    The newest of all stays: a clean close made it, and it alone knows producers whose data is gone.
    """
    bases = set(log.segments.base_offsets)
    for offset in [o for o in log.snapshot_offsets[:-1] if o not in bases and (end is None or o < end)]:
        log.disk.unlink_if_exists(log.snapshot_path(offset))
        log.snapshot_offsets.remove(offset)
