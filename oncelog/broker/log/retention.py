"""What of a log is too old, too much, or deleted by a client, and so may go.

Three reasons, looked at in Kafka's order: a segment lies wholly below the log start offset (DeleteRecords),
the log is larger than `retention.bytes`, its newest record is older than `retention.ms`. The first one counts
for every log, the others for those with `cleanup.policy=delete`. Segments go oldest first and as a whole,
never above the high watermark. The active segment can go as well: the log is rolled before.

A timestamp in the future keeps its segment until its time has come and gone. A segment whose records have no
timestamp is as old as its file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.log.file_names import LOG

if TYPE_CHECKING:
    from oncelog.broker.log.partition_log import PartitionLog
    from oncelog.broker.log.segment import Segment


def plan_retention(log: PartitionLog, now_ms: int) -> int:
    """The offset below which everything may go: where a segment begins, or the end of the log."""
    config = log.config
    segments = _removable(log)
    count = _count_before_log_start(log, segments)
    if config.cleanup_delete:
        if config.retention_bytes >= 0:
            count = _count_above_size(log, segments, count, config.retention_bytes)
        if config.retention_ms >= 0:
            count = _count_expired(segments, count, now_ms - config.retention_ms)
    return _end_of(log, count)


def apply_retention(log: PartitionLog, now_ms: int) -> list[Segment]:
    """Takes out what `plan_retention` says; the files go after `file.delete.delay.ms`."""
    offset = plan_retention(log, now_ms)
    if offset <= log.segments.base_offsets[0]:
        return []
    if offset > log.active.base_offset:
        log.roll(now_ms=now_ms)
    return log.delete_segments_before(offset, now_ms=now_ms)


def newest_ms(segment: Segment) -> int:
    """The time of a segment's newest record."""
    timestamp = segment.largest_timestamp
    return timestamp if timestamp >= 0 else segment.disk.modified_ms(segment.path(LOG))


def _removable(log: PartitionLog) -> list[Segment]:
    """The segments that end at or below the high watermark, without an active one that is empty."""
    segments = log.segments.items
    count = 0
    while count < len(segments) and _end_of(log, count + 1) <= log.high_watermark:
        count += 1
    if count == len(segments) and not log.active.size_bytes:
        count -= 1
    return segments[:count]


def _end_of(log: PartitionLog, count: int) -> int:
    """The offset behind the first `count` segments."""
    bases = log.segments.base_offsets
    return bases[count] if count < len(bases) else log.end_offset


def _count_before_log_start(log: PartitionLog, segments: list[Segment]) -> int:
    bases = log.segments.base_offsets
    count = 0
    while count < len(segments) and count + 1 < len(bases) and bases[count + 1] <= log.log_start_offset:
        count += 1
    return count


def _count_expired(segments: list[Segment], count: int, oldest_ms: int) -> int:
    """A segment that compaction has emptied is as old as the next one: its offsets lead there."""
    for i in range(count, len(segments)):
        if segments[i].size_bytes:
            if newest_ms(segments[i]) >= oldest_ms:
                break
            count = i + 1
    return count


def _count_above_size(log: PartitionLog, segments: list[Segment], count: int, size_bytes_max: int) -> int:
    """A segment goes only if what remains still is at least the size that was asked for."""
    excess = sum(segment.size_bytes for segment in log.segments.items[count:]) - size_bytes_max
    while count < len(segments) and excess >= segments[count].size_bytes:
        excess -= segments[count].size_bytes
        count += 1
    return count
