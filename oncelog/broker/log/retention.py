"""What of a log is too old, too much, or deleted by a client, and so may go.

Three reasons, looked at in Kafka's order: a segment lies wholly below the log start offset (DeleteRecords),
the log is larger than `retention.bytes`, its newest record is older than `retention.ms`. The first one counts
for every log, the others for those with `cleanup.policy=delete`. Segments go oldest first and as a whole,
never above the high watermark. The active segment can go as well: the log is rolled before.

A timestamp in the future keeps its segment until its time has come and gone. A segment whose records have no
timestamp is as old as its file.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from oncelog.broker.log import large_snapshots, removal
from oncelog.broker.log.file_names import LOG

if TYPE_CHECKING:
    from oncelog.broker.log.partition_log import PartitionLog
    from oncelog.broker.log.segment import Segment
    from oncelog.broker.log.steps import Steps

SEGMENTS_AT_ONCE = 64
"""How many segments are planned for at once. To find out how old one is may take opening its time index."""


def plan_retention(log: PartitionLog, now_ms: int) -> int:
    """The offset below which everything may go: where a segment begins, or the end of the log.

    If these are very many segments, it is the offset of one of the first of them, to be asked for the rest later.
    """
    config = log.config
    count_max = _count_removable(log)
    count = min(log.segments.floor_index(log.log_start_offset), count_max, SEGMENTS_AT_ONCE)
    if config.cleanup_delete:
        if config.retention_bytes >= 0:
            count = _count_above_size(log, count, count_max, config.retention_bytes)
        if config.retention_ms >= 0:
            count = _count_expired(log.segments.items, count, count_max, now_ms - config.retention_ms)
    return _end_of(log, count)


def retain(log: PartitionLog, now_ms: int) -> Steps[list[Segment]]:
    """Takes out what `plan_retention` says, in steps; the files go after `file.delete.delay.ms`."""
    removed: list[Segment] = []
    while not log.is_offline:
        offset = plan_retention(log, now_ms)
        if offset <= log.segments.base_offsets[0]:
            break
        if offset > log.active.base_offset:
            log.roll(now_ms=now_ms)
        yield from large_snapshots.write(log)
        deleted = yield from removal.delete_segments_before(log, offset, now_ms)
        if not deleted:
            yield from _make_deletable(log, offset, now_ms)
            break
        removed += deleted
    return removed


def _make_deletable(log: PartitionLog, offset: int, now_ms: int) -> Steps[None]:
    """No snapshot behind `offset` knows the producers of what is to go. There will be one, for the next time."""
    if log.is_offline or (log.snapshot_offsets and log.snapshot_offsets[-1] >= offset):
        return
    log.roll(now_ms=now_ms)
    if not log.has_snapshot(log.end_offset) and not large_snapshots.maybe_begin(log, log.end_offset):
        log.write_snapshot(log.end_offset)
    yield from large_snapshots.write(log)


def newest_ms(segment: Segment) -> int:
    """The time of a segment's newest record."""
    timestamp = segment.largest_timestamp
    return timestamp if timestamp >= 0 else segment.disk.modified_ms(segment.path(LOG))


def _count_removable(log: PartitionLog) -> int:
    """The number of segments that end at or below the high watermark, without an active one that is empty."""
    if log.end_offset <= log.high_watermark and log.active.size_bytes:
        return len(log.segments.items)
    return bisect_right(log.segments.base_offsets, log.high_watermark) - 1


def _end_of(log: PartitionLog, count: int) -> int:
    """The offset behind the first `count` segments."""
    bases = log.segments.base_offsets
    return bases[count] if count < len(bases) else log.end_offset


def _count_expired(segments: list[Segment], count: int, count_max: int, oldest_ms: int) -> int:
    """A segment that compaction has emptied is as old as the next one: its offsets lead there."""
    for i in range(count, count_max):
        if count >= SEGMENTS_AT_ONCE:
            break
        if segments[i].size_bytes:
            if newest_ms(segments[i]) >= oldest_ms:
                break
            count = i + 1
    return count


def _count_above_size(log: PartitionLog, count: int, count_max: int, size_bytes_max: int) -> int:
    """A segment goes only if what remains still is at least the size that was asked for."""
    segments = log.segments.items
    excess = log.size_bytes - sum(segment.size_bytes for segment in segments[:count]) - size_bytes_max
    while count < min(count_max, SEGMENTS_AT_ONCE) and excess >= segments[count].size_bytes:
        excess -= segments[count].size_bytes
        count += 1
    return count
