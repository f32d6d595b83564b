from __future__ import annotations

import pytest
from log_helpers import CONFIG, NOW, TOPIC_ID, append, batch_of, open_manager
from simulated_disk import SimulatedDisk

from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.log_manager import LogManager
from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.log.retention import SEGMENTS_AT_ONCE, plan_retention, retain
from oncelog.broker.log.steps import run
from oncelog.broker.log.unopened_logs import NEVER

RETENTION_MS = 1000


def make_log(
    config: LogConfig, *, ages_ms: list[int], disk: SimulatedDisk | None = None, flushed: bool = True
) -> PartitionLog:
    """A log with one segment of two records per age; the last one is active."""
    manager = open_manager(disk or SimulatedDisk(), config)
    log = manager.create("t", 0, TOPIC_ID, now_ms=NOW)
    for i, age_ms in enumerate(ages_ms):
        if i:
            log.roll(now_ms=NOW)
        append(log, batch_of(2, timestamp=NOW - age_ms))
    log.flush()
    if flushed:
        log.update_high_watermark(log.end_offset)
    return log


BY_TIME = CONFIG.replace(retention_ms=RETENTION_MS)


def test_segments_go_when_their_newest_record_is_too_old() -> None:
    # A batch of two has its newest record one millisecond after the first.
    log = make_log(BY_TIME, ages_ms=[3000, RETENTION_MS + 2, RETENTION_MS + 1, 0])
    assert plan_retention(log, NOW) == 4
    assert [segment.base_offset for segment in run(retain(log, NOW))] == [0, 2]
    assert log.log_start_offset == 4
    assert plan_retention(log, NOW) == 4
    assert run(retain(log, NOW)) == []


def test_a_young_segment_keeps_the_older_ones_behind_it() -> None:
    log = make_log(BY_TIME, ages_ms=[3000, 0, 3000, 0])
    assert plan_retention(log, NOW) == 2


def test_a_timestamp_in_the_future_keeps_its_segment() -> None:
    log = make_log(BY_TIME, ages_ms=[-5000, 3000, 0])
    assert plan_retention(log, NOW) == 0
    assert plan_retention(log, NOW + 5000 + RETENTION_MS) == 0
    assert plan_retention(log, NOW + 5000 + RETENTION_MS + 2) == 6


def test_records_without_timestamps_are_as_old_as_their_file() -> None:
    disk = SimulatedDisk()
    log = make_log(BY_TIME, ages_ms=[NOW + 2, 0], disk=disk)
    assert log.segments.items[0].largest_timestamp == -1
    disk.file_time_ms = NOW - RETENTION_MS
    assert plan_retention(log, NOW) == 0
    disk.file_time_ms -= 1
    assert plan_retention(log, NOW) == 2


def test_the_active_segment_is_rolled_when_it_has_expired() -> None:
    log = make_log(BY_TIME, ages_ms=[3000, 3000])
    assert plan_retention(log, NOW) == 4
    run(retain(log, NOW))
    assert log.segments.base_offsets == [4]
    assert (log.log_start_offset, log.end_offset) == (4, 4)
    assert append(log, batch_of(1)).first_offset == 4


def test_an_empty_active_segment_stays() -> None:
    log = make_log(BY_TIME.replace(retention_bytes=0), ages_ms=[])
    assert plan_retention(log, NOW + 10**9) == 0
    assert run(retain(log, NOW + 10**9)) == []


def test_nothing_above_the_high_watermark_goes() -> None:
    log = make_log(BY_TIME, ages_ms=[3000, 3000, 3000], flushed=False)
    for high_watermark, expected in ((0, 0), (1, 0), (2, 2), (3, 2), (4, 4), (6, 6)):
        log.update_high_watermark(high_watermark)
        assert plan_retention(log, NOW) == expected


def test_the_size_that_remains_is_at_least_what_was_asked_for() -> None:
    log = make_log(CONFIG.replace(retention_ms=-1), ages_ms=[0, 0, 0, 0])
    segment_bytes = log.segments.items[0].size_bytes
    for size_bytes, expected in (
        (-1, 0),
        (log.size_bytes + 1, 0),
        (log.size_bytes, 0),
        (3 * segment_bytes + 1, 0),
        (3 * segment_bytes, 2),
        (segment_bytes, 6),
        (0, 8),
    ):
        log.config = log.config.replace(retention_bytes=size_bytes)
        assert plan_retention(log, NOW) == expected


def test_time_counts_for_what_size_leaves() -> None:
    log = make_log(BY_TIME, ages_ms=[0, 3000, 3000, 0])
    log.config = log.config.replace(retention_bytes=3 * log.segments.items[0].size_bytes)
    assert plan_retention(log, NOW) == 6


@pytest.mark.parametrize("policy", [{"cleanup_delete": True}, {"cleanup_delete": False}])
def test_deleted_records_go_whatever_the_policy(policy: dict[str, bool]) -> None:
    config = CONFIG.replace(retention_ms=-1, cleanup_compact=True, **policy)
    log = make_log(config, ages_ms=[0, 0, 0])
    for offset, expected in ((1, 0), (2, 2), (5, 4), (6, 4)):
        log.delete_records_before(offset)
        assert plan_retention(log, NOW) == expected
    run(retain(log, NOW))
    assert log.segments.base_offsets == [4]
    assert log.log_start_offset == 6


def test_an_emptied_segment_is_as_old_as_the_next() -> None:
    log = make_log(BY_TIME.replace(cleanup_compact=True), ages_ms=[3000, 3000, 0])
    for segment in log.closed_segments():
        cleaned = log.create_cleaned_segment(segment.base_offset)
        cleaned.finish()
        log.checkpointed_recovery_point = log.recovery_point
        log.replace_segments([segment], cleaned, now_ms=NOW)
    assert plan_retention(log, NOW) == 0
    assert plan_retention(log, NOW + RETENTION_MS + 2) == 6


def test_without_delete_nothing_expires() -> None:
    config = BY_TIME.replace(cleanup_delete=False, cleanup_compact=True, retention_bytes=0)
    assert plan_retention(make_log(config, ages_ms=[3000, 3000]), NOW) == 0


def test_the_age_of_a_few_segments_at_a_time_is_looked_up() -> None:
    """Of closed segments it is in their time indexes."""
    disk = SimulatedDisk()
    count = 3 * SEGMENTS_AT_ONCE
    log = make_log(BY_TIME, ages_ms=[3000] * count, disk=disk)
    for segment in log.closed_segments():
        segment._largest_timestamp = None
    opened: list[str] = []
    disk_open = disk.open

    def spy(path: str, **kwargs: bool) -> int:
        opened.append(path)
        return disk_open(path, **kwargs)

    disk.open = spy  # type: ignore[method-assign]
    steps = retain(log, NOW)
    for step in steps:
        assert len([path for path in opened if path.endswith(".timeindex")]) <= SEGMENTS_AT_ONCE
        opened.clear()
        assert step is not None
        step()
    assert log.segments.base_offsets == [2 * count]


class TestLogsThatNobodyOpened:
    """`due_ms` looks at a directory only, and agrees with what retention finds once the log is open."""

    def reopened(self, config: LogConfig, ages_ms: list[int], **kwargs: int) -> LogManager:
        disk = SimulatedDisk()
        manager = open_manager(disk, config)
        log = manager.create("t", 0, TOPIC_ID, now_ms=NOW)
        for i, age_ms in enumerate(ages_ms):
            if i:
                log.roll(now_ms=NOW)
            append(log, batch_of(2, timestamp=NOW - age_ms))
        log.flush()
        log.update_high_watermark(log.end_offset)
        if kwargs:
            log.delete_records_before(kwargs["log_start"])
        manager.close()
        disk.locked.clear()
        manager = open_manager(disk, config)
        assert manager.unopened() == [("t", 0)]
        return manager

    @pytest.mark.parametrize("ages_ms", [[500], [500, 200], [5000, 10], [-500, 0, 0]])
    def test_due_when_the_first_segment_expires(self, ages_ms: list[int]) -> None:
        manager = self.reopened(BY_TIME, ages_ms)
        due_ms = manager.due_ms("t", 0, BY_TIME)
        assert due_ms == NOW - ages_ms[0] + 1 + RETENTION_MS + 1
        log = manager.get("t", 0, now_ms=NOW)
        assert log is not None
        log.update_high_watermark(log.end_offset)
        assert plan_retention(log, due_ms - 1) == 0
        assert plan_retention(log, due_ms) > 0
        assert manager.unopened() == []

    def test_never_due(self) -> None:
        for config in (
            BY_TIME.replace(retention_ms=-1),
            BY_TIME.replace(cleanup_delete=False, cleanup_compact=True),
        ):
            assert self.reopened(config, [5000]).due_ms("t", 0, config) == NEVER
        assert self.reopened(BY_TIME, []).due_ms("t", 0, BY_TIME) == NEVER

    def test_due_at_once(self) -> None:
        by_size = CONFIG.replace(retention_ms=-1, retention_bytes=100)
        assert self.reopened(by_size, [0, 0]).due_ms("t", 0, by_size) == 0
        assert self.reopened(by_size, [0]).due_ms("t", 0, by_size) == NEVER
        kept = CONFIG.replace(retention_ms=-1)
        assert self.reopened(kept, [0, 0], log_start=2).due_ms("t", 0, kept) == 0
        assert self.reopened(kept, [0, 0], log_start=1).due_ms("t", 0, kept) == NEVER
        compacted = kept.replace(cleanup_compact=True)
        assert self.reopened(compacted, [0, 0]).due_ms("t", 0, compacted) == 0

    def test_due_at_once_if_removed_files_are_left(self) -> None:
        manager = self.reopened(BY_TIME, [500])
        manager.disk.write_new_file("/data/t-0/00000000000000000000.log.deleted", b"x")
        assert manager.due_ms("t", 0, BY_TIME) == 0
