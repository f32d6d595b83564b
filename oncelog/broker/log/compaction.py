"""Whether a log should be compacted, and how far: the decisions of `cleanup.policy=compact`.

    clean │ dirty │ not cleanable yet
          │       └ from the segment of the last stable offset on, the first one younger than
          │         min.compaction.lag.ms, and the active one
          └ first dirty offset: where the last cleaning ended (`cleaner-offset-checkpoint`)

A log is cleaned when its dirty part is more than `min.cleanable.dirty.ratio` of what can be cleaned, or when a
dirty segment is older than `max.compaction.lag.ms` (KIP-354). `cleaner` does the work that is planned here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.named_tuple import NamedTuple

if TYPE_CHECKING:
    from oncelog.broker.log.log_config import LogConfig
    from oncelog.broker.log.partition_log import PartitionLog
    from oncelog.broker.log.segment import Segment
    from oncelog.broker.log.steps import Steps
    from oncelog.broker.log.txn_index import TxnIndex

_PRODUCERS_AT_ONCE = 1000


class CleaningPlan(NamedTuple):
    """Everything that a cleaning needs to know of the log, as of one moment: it runs in another thread."""

    log: PartitionLog
    segments: list[Segment]
    """The closed segments up to the end, from the first one of the log on."""
    txn_indexes: list[TxnIndex]
    """Of all segments of the log: a transaction may be aborted long after its records."""
    sizes_bytes: dict[Segment, int]
    first_dirty_offset: int
    end_offset: int
    ratio: float
    last_batches: dict[int, tuple[int, int]]
    """Per producer the last offset of its newest batch, -1 if its epoch has none, and its epoch."""
    config: LogConfig
    now_ms: int


class _DirtyPart(NamedTuple):
    """What of a log would be cleaned."""

    segment_count: int
    """From the first one of the log on, clean or dirty."""
    first_offset: int
    ratio: float


def dirty_ratio(log: PartitionLog, last_clean_offset: int | None, now_ms: int) -> Steps[float]:
    """How dirty the log is; 0 if it is not dirty enough to be cleaned."""
    part = yield from _find_dirty_part(log, last_clean_offset, now_ms)
    return 0.0 if part is None else part.ratio


def plan_cleaning(log: PartitionLog, last_clean_offset: int | None, now_ms: int) -> Steps[CleaningPlan | None]:
    """What to clean, or None if the log is not dirty enough."""
    part = yield from _find_dirty_part(log, last_clean_offset, now_ms)
    if part is None:
        return None
    segments = log.segments.items[: part.segment_count]
    end_offset = log.segments.base_offsets[part.segment_count]
    return CleaningPlan(
        log=log,
        segments=segments,
        txn_indexes=(yield from _copy_txn_indexes(log)),
        sizes_bytes={segment: segment.size_bytes for segment in segments},
        first_dirty_offset=part.first_offset,
        end_offset=end_offset,
        ratio=part.ratio,
        last_batches=(yield from _last_batches(log)),
        config=log.config,
        now_ms=now_ms,
    )


def _find_dirty_part(log: PartitionLog, last_clean_offset: int | None, now_ms: int) -> Steps[_DirtyPart | None]:
    first_dirty = first_dirty_offset(log, last_clean_offset)
    count = yield from _cleanable_count(log, first_dirty, now_ms)
    segments = log.segments.items[:count]
    end_offset = log.segments.base_offsets[count]
    dirty = _dirty_part(log, count, min(first_dirty, end_offset))
    dirty_bytes = sum(segment.size_bytes for segment in dirty)
    clean_bytes = sum(segment.size_bytes for segment in segments if segment.base_offset < first_dirty)
    if not dirty_bytes:
        return None
    ratio = dirty_bytes / (clean_bytes + dirty_bytes)
    if ratio <= log.config.min_cleanable_dirty_ratio and not (yield from _is_overdue(log, dirty, now_ms)):
        return None
    return _DirtyPart(count, first_dirty, ratio)


def _copy_txn_indexes(log: PartitionLog) -> Steps[list[TxnIndex]]:
    copies = []
    for segment in list(log.segments.with_aborted(0)):
        index = segment.copy_txn_index()
        if index is not None:
            copies.append(index)
        yield None
    return copies


def _last_batches(log: PartitionLog) -> Steps[dict[int, tuple[int, int]]]:
    last_batches: dict[int, tuple[int, int]] = {}
    for entry in log.active_producers():
        last_batches[entry.producer_id] = (entry.batches[-1].last_offset if entry.batches else -1, entry.epoch)
        if not len(last_batches) % _PRODUCERS_AT_ONCE:
            yield None
    return last_batches


def first_dirty_offset(log: PartitionLog, last_clean_offset: int | None) -> int:
    """Where the last cleaning ended. A log that lost its front or its end since is looked at as a whole."""
    if last_clean_offset is None or not log.log_start_offset <= last_clean_offset <= log.end_offset:
        return log.log_start_offset
    return last_clean_offset


def is_unchanged(plan: CleaningPlan, group: list[Segment]) -> bool:
    """Whether the segments that were cleaned still are what they were: else the work was in vain."""
    log = plan.log
    if log.is_offline:
        return False
    start = log.segments.floor_index(group[0].base_offset)
    return log.segments.items[start : start + len(group)] == group and all(
        segment.size_bytes == plan.sizes_bytes[segment] for segment in group
    )


def _cleanable_count(log: PartitionLog, first_dirty: int, now_ms: int) -> Steps[int]:
    """The number of segments, from the first one on, that may be cleaned."""
    segments = log.segments
    # At the base of a segment nothing of it is needed, so the one before is the last that may be cleaned.
    count = min(segments.floor_index(log.last_stable_offset), len(segments.items) - 1)
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        for i in range(min(segments.floor_index(first_dirty), count), count):
            if segments.items[i].largest_timestamp > now_ms - lag_ms:
                return i
            # It may have been read from the time index.
            yield None
    return count


def _dirty_part(log: PartitionLog, count: int, first_dirty: int) -> list[Segment]:
    return log.segments.items[min(log.segments.floor_index(first_dirty), count) : count]


def _is_overdue(log: PartitionLog, dirty: list[Segment], now_ms: int) -> Steps[bool]:
    oldest_ms = now_ms - log.config.max_compaction_lag_ms
    for segment in dirty:
        if 0 < segment.first_timestamp < oldest_ms:
            return True
        # It may have been read from the segment.
        yield None
    return False
