"""Snapshots of very many producers: a roll does not wait for them, and they are what they were when it happened."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest
from log_helpers import CONFIG, NOW, append, batch_of, open_log
from simulated_disk import SimulatedDisk

from oncelog.broker.log import large_snapshots, producer_snapshot
from oncelog.broker.log.disk import StorageError
from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.log.producer_entry import ProducerEntry
from oncelog.broker.log.retention import retain
from oncelog.broker.log.steps import run

PRODUCERS = 20
LARGE_SEGMENTS = CONFIG.replace(segment_bytes=100_000)


@pytest.fixture(autouse=True)
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Few are many here. The producer ids in the order in which they are encoded."""
    monkeypatch.setattr(large_snapshots, "ENTRIES_MIN", 5)
    monkeypatch.setattr(large_snapshots, "_ENTRIES_AT_ONCE", 4)
    monkeypatch.setattr(producer_snapshot, "_BLOCK_ENTRIES", 3)
    encoded: list[int] = []
    fields = producer_snapshot._fields

    def spy(entry: ProducerEntry) -> tuple[int, ...]:
        encoded.append(entry.producer_id)
        return fields(entry)

    monkeypatch.setattr(producer_snapshot, "_fields", spy)
    return encoded


def write(log: PartitionLog, producer_id: int, sequence: int = 0, *, transactional: bool = False) -> None:
    append(log, batch_of(producer_id=producer_id, epoch=0, sequence=sequence, transactional=transactional))


def mark(log: PartitionLog, producer_id: int, *, epoch: int = 0) -> None:
    log.append_marker(
        producer_id=producer_id, producer_epoch=epoch, commit=True, coordinator_epoch=1, leader_epoch=0, now_ms=NOW
    )


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def log(disk: SimulatedDisk) -> PartitionLog:
    """With many producers, some of them in a transaction, just before a roll."""
    log = open_log(disk, config=LARGE_SEGMENTS)
    for producer_id in range(PRODUCERS):
        write(log, producer_id, transactional=producer_id % 2 == 0)
    log.flush()
    log.update_high_watermark(log.end_offset)
    return log


def state_of(disk: SimulatedDisk, log: PartitionLog) -> dict[int, tuple[object, ...]]:
    """The producers that a crash would leave."""
    log.flush()
    return open_log(disk.after_kill(), config=LARGE_SEGMENTS).producers.state()


def last_batches(state: dict[int, tuple[object, ...]]) -> dict[int, tuple[object, ...]]:
    """Without the batches before the last one, which a snapshot does not have."""
    return {producer_id: (*fields[:5], fields[5][-1:]) for producer_id, fields in state.items()}  # type: ignore[index]


def test_a_roll_encodes_nothing(log: PartitionLog, encoded: list[int]) -> None:
    log.roll(now_ms=NOW)
    assert encoded == []
    assert log.snapshots_due == {log}
    steps = large_snapshots.write(log)
    for _ in range(PRODUCERS // 4):
        assert next(steps) is None
        assert len(encoded) <= 4
        encoded.clear()
    assert run(steps) is None
    assert encoded == []
    assert log.snapshot_offsets == [PRODUCERS]
    assert not log.snapshots_due


def test_few_producers_have_their_snapshot_at_once(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    write(log, 1)
    log.roll(now_ms=NOW)
    assert log.snapshot_offsets == [1]
    assert not log.snapshots_due


def test_it_is_as_of_the_roll_whatever_producers_do_meanwhile(disk: SimulatedDisk, log: PartitionLog) -> None:
    expected = producer_snapshot.encode(log.producers.entries.values())
    log.roll(now_ms=NOW)
    write(log, 1, 1)
    steps = large_snapshots.write(log)
    next(steps)
    mark(log, 0)
    mark(log, PRODUCERS - 2, epoch=3)
    write(log, PRODUCERS - 1, 1)
    write(log, PRODUCERS - 1, 2)
    next(steps)
    write(log, PRODUCERS)
    run(log.expire_producers(NOW + 10**9))
    assert len(log.producers.entries) < PRODUCERS
    write(log, 5)
    run(steps)
    assert disk.read_file(log.snapshot_path(PRODUCERS)) == expected


def test_another_roll_meanwhile_has_no_snapshot_and_recovery_needs_none(disk: SimulatedDisk, log: PartitionLog) -> None:
    log.roll(now_ms=NOW)
    steps = large_snapshots.write(log)
    next(steps)
    write(log, 1, 1)
    log.roll(now_ms=NOW)
    mark(log, 2)
    before = last_batches(state_of(disk, log))
    run(steps)
    assert log.snapshot_offsets == [PRODUCERS]
    assert last_batches(state_of(disk, log)) == before == last_batches(log.producers.state())
    log.roll(now_ms=NOW)
    run(large_snapshots.write(log))
    assert log.snapshot_offsets == [PRODUCERS, PRODUCERS + 2]


class TestRetention:
    def test_keeps_the_segments_that_recovery_needs_without_a_snapshot(
        self, disk: SimulatedDisk, log: PartitionLog
    ) -> None:
        log.roll(now_ms=NOW)
        write(log, 1, 1)
        log.flush()
        assert log.delete_segments_before(PRODUCERS, now_ms=NOW) == []
        assert last_batches(state_of(disk, log)).keys() == set(range(PRODUCERS))
        run(large_snapshots.write(log))
        assert len(log.delete_segments_before(PRODUCERS, now_ms=NOW)) == 1
        assert last_batches(state_of(disk, log)) == last_batches(log.producers.state())

    def test_goes_as_far_as_there_are_snapshots(self, log: PartitionLog) -> None:
        log.roll(now_ms=NOW)
        run(large_snapshots.write(log))
        for _ in range(2):
            append(log, batch_of())
            log.roll(now_ms=NOW)
        assert log.segments.base_offsets == [0, PRODUCERS, PRODUCERS + 1, PRODUCERS + 2]
        assert log.snapshot_offsets == [PRODUCERS]
        assert len(log.delete_segments_before(PRODUCERS + 2, now_ms=NOW)) == 1

    def test_a_later_snapshot_will_do_once_recovery_begins_there(self, disk: SimulatedDisk, log: PartitionLog) -> None:
        log.roll(now_ms=NOW)
        log.producers.snapshot = None
        append(log, batch_of())
        log.roll(now_ms=NOW)
        run(large_snapshots.write(log))
        log.flush()
        assert log.snapshot_offsets == [PRODUCERS + 1]
        assert log.delete_segments_before(PRODUCERS, now_ms=NOW) == []
        log.checkpointed_recovery_point = log.recovery_point
        assert len(log.delete_segments_before(PRODUCERS, now_ms=NOW)) == 1
        left = open_log(disk.after_kill(), config=LARGE_SEGMENTS, recovery_point=log.recovery_point)
        assert last_batches(left.producers.state()) == last_batches(log.producers.state())

    def test_of_everything_writes_the_snapshot_first(self, disk: SimulatedDisk, log: PartitionLog) -> None:
        log.config = LARGE_SEGMENTS.replace(retention_bytes=0)
        assert len(run(retain(log, NOW))) == 1
        assert log.segments.base_offsets == log.snapshot_offsets == [PRODUCERS]
        assert last_batches(state_of(disk, log)) == last_batches(log.producers.state())

    def test_makes_a_snapshot_where_all_were_lost(self, disk: SimulatedDisk, log: PartitionLog) -> None:
        log.roll(now_ms=NOW)
        log.producers.snapshot = None
        append(log, batch_of())
        log.flush()
        log.update_high_watermark(log.end_offset)
        log.config = LARGE_SEGMENTS.replace(retention_bytes=1)
        assert run(retain(log, NOW)) == []
        assert log.snapshot_offsets == [PRODUCERS + 1]
        log.checkpointed_recovery_point = log.flush()
        assert len(run(retain(log, NOW))) == 1
        left = open_log(disk.after_kill(), config=LARGE_SEGMENTS, recovery_point=log.recovery_point)
        assert last_batches(left.producers.state()) == last_batches(log.producers.state())


def test_a_full_disk_costs_the_snapshot_and_nothing_else(disk: SimulatedDisk, log: PartitionLog) -> None:
    log.roll(now_ms=NOW)
    disk.fail("pwrite", errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        run(large_snapshots.write(log))
    assert not [name for name in disk.names if ".snapshot" in name]
    assert not log.is_offline
    write(log, 1, 1)
    log.roll(now_ms=NOW)
    run(large_snapshots.write(log))
    assert log.snapshot_offsets == [PRODUCERS + 1]


def test_a_failed_sync_of_its_name_ends_the_log(disk: SimulatedDisk, log: PartitionLog) -> None:
    """It may have been told of what a flush relies on."""
    log.roll(now_ms=NOW)
    disk.fail("fsync_dir", errno.EIO)
    with pytest.raises(StorageError):
        run(large_snapshots.write(log))
    assert log.is_offline


@pytest.mark.parametrize(
    "end",
    [lambda log: log.close(clean=False), lambda log: log.close(), lambda log: log.truncate_to(3, now_ms=NOW)],
    ids=["deleted", "closed", "truncated"],
)
def test_nothing_is_left_of_it_if_its_log_ends_meanwhile(
    disk: SimulatedDisk, log: PartitionLog, end: Callable[[PartitionLog], None]
) -> None:
    for steps_before in range(1, PRODUCERS // 4 + 3):
        left = disk.after_kill()
        again = open_log(left, config=LARGE_SEGMENTS)
        again.roll(now_ms=NOW)
        steps = large_snapshots.write(again)
        for _ in range(steps_before):
            step = next(steps)
            if step is not None:
                step()
        end(again)
        run(steps)
        snapshots = [again.snapshot_path(offset) for offset in again.snapshot_offsets]
        assert [name for name in left.names if ".snapshot" in name] == snapshots
