from __future__ import annotations

import errno

import pytest
from log_helpers import CONFIG, NOW, append, batch_of, open_log, read_all
from simulated_disk import SimulatedDisk

from oncelog.broker.log.disk import StorageError
from oncelog.broker.log.file_names import SEGMENT_SUFFIXES
from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.log.removal import SEGMENTS_AT_ONCE, delete_segments_before
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.records.batch import read_header


def filled(disk: SimulatedDisk) -> tuple[PartitionLog, list[bytes]]:
    log = open_log(disk, config=CONFIG.replace(file_delete_delay_ms=100))
    batches = []
    for i in range(30):
        batch = batch_of(2, producer_id=1, epoch=0, sequence=2 * i)
        append(log, batch)
        batches.append(bytes(batch))
    log.update_high_watermark(log.end_offset)
    return log, batches


def test_old_segments_go_with_their_snapshots() -> None:
    disk = SimulatedDisk()
    log, batches = filled(disk)
    second, third = log.segments.base_offsets[1:3]
    assert log.delete_segments_before(second - 1, now_ms=NOW) == []
    assert [segment.base_offset for segment in log.delete_segments_before(third, now_ms=NOW)] == [0, second]
    assert log.log_start_offset == third
    assert read_all(log) == [batch for batch in batches if read_header(batch).base_offset >= third]
    assert log.snapshot_offsets == log.segments.base_offsets
    log.maybe_remove_files(NOW + 99)
    assert any(name.endswith(".deleted") for name in disk.names)
    log.maybe_remove_files(NOW + 100)
    assert not any(name.endswith(".deleted") for name in disk.names)
    with pytest.raises(KafkaError) as raised:
        log.read(0, size_bytes_max=1, end_offset=9)
    assert raised.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_the_active_segment_stays() -> None:
    log, _ = filled(SimulatedDisk())
    log.delete_segments_before(10**9, now_ms=NOW)
    assert log.segments.items == [log.active]
    log.roll(now_ms=NOW)
    log.delete_segments_before(log.end_offset, now_ms=NOW)
    assert log.log_start_offset == log.end_offset
    assert log.size_bytes == 0
    assert next(log.active_producers()).last_sequence == 59


def test_records_above_the_high_watermark_cannot_be_deleted() -> None:
    log, _ = filled(SimulatedDisk())
    log.update_high_watermark(7)
    for offset in (8, -2):
        with pytest.raises(KafkaError) as raised:
            log.delete_records_before(offset)
        assert raised.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.delete_records_before(7) == 7
    assert log.delete_records_before(3) == 7


@pytest.mark.parametrize("target", range(0, 62, 3))
def test_truncating_to_any_offset(target: int) -> None:
    disk = SimulatedDisk()
    log, batches = filled(disk)
    log.flush()
    changed = log.truncate_to(target, now_ms=NOW)
    assert changed == (target < 60)
    kept = [batch for batch in batches if read_header(batch).last_offset < target]
    assert log.end_offset == log.high_watermark == 2 * len(kept)
    assert read_all(log) == kept
    entries = list(log.active_producers())
    assert [entry.last_sequence for entry in entries] == ([2 * len(kept) - 1] if kept else [])
    again = batch_of(2, producer_id=1, epoch=0, sequence=2 * len(kept))
    assert append(log, again).first_offset == 2 * len(kept)
    assert read_all(log) == [*kept, bytes(again)]
    log.close()
    log = open_log(disk, clean=True, recovery_point=2 * len(kept) + 2)
    assert read_all(log) == [*kept, bytes(again)]


def test_a_segment_that_is_active_again_and_then_gone_is_not_flushed() -> None:
    log, _ = filled(SimulatedDisk())
    second = log.segments.base_offsets[1]
    log.truncate_to(second + 2, now_ms=NOW)
    for _ in range(10):
        append(log, batch_of(2))
    log.truncate_to(second - 2, now_ms=NOW)
    assert log.flush() == second - 2


def test_snapshots_of_truncated_records_are_forgotten() -> None:
    disk = SimulatedDisk()
    log, _ = filled(disk)
    base = log.segments.base_offsets[2]
    assert base in log.snapshot_offsets
    log.truncate_to(2, now_ms=NOW)
    log.config = CONFIG.replace(segment_bytes=10**6)
    while log.end_offset < base + 10:
        append(log, batch_of(2))
    log.truncate_to(base + 2, now_ms=NOW)
    assert [entry.last_sequence for entry in log.active_producers()] == [1]


def test_truncating_into_an_aborted_transaction_reopens_it() -> None:
    log = open_log(SimulatedDisk())
    append(log, batch_of(2, producer_id=1, epoch=0, sequence=0, transactional=True))
    log.append_marker(producer_id=1, producer_epoch=0, commit=False, coordinator_epoch=0, leader_epoch=0, now_ms=NOW)
    log.truncate_to(2, now_ms=NOW)
    log.update_high_watermark(log.end_offset)
    assert log.aborted_transactions(0, 2) == []
    assert log.has_ongoing_transaction(1, 0)
    assert log.last_stable_offset == 0


def test_records_that_were_to_be_sent_are_not_taken_from_a_new_segment_of_the_same_name() -> None:
    log, batches = filled(SimulatedDisk())
    stored = log.locate(0, size_bytes_max=1, end_offset=log.end_offset).stored()
    assert stored.read() == batches[0]
    log.truncate_fully_and_start_at(0, now_ms=NOW)
    append(log, batch_of(2))
    with pytest.raises(OSError, match="the records are gone"):
        stored.read()


def test_a_change_that_fails_half_way_ends_the_log() -> None:
    disk = SimulatedDisk()
    log, _ = filled(disk)
    disk.fail("rename", 0, errno.EIO)
    with pytest.raises(StorageError):
        log.delete_segments_before(10**9, now_ms=NOW)
    assert log.is_offline


# -- many segments -------------------------------------------------------------------------------------------


def with_segments(disk: SimulatedDisk, count: int) -> PartitionLog:
    """A log with that many closed segments of two records."""
    log = open_log(disk, config=CONFIG.replace(file_delete_delay_ms=100))
    for i in range(count):
        append(log, batch_of(2, producer_id=1, epoch=0, sequence=2 * i))
        log.roll(now_ms=NOW)
    append(log, batch_of(2))
    log.flush()
    log.update_high_watermark(log.end_offset)
    return log


def test_many_segments_go_in_steps_that_leave_syncs_to_the_caller() -> None:
    disk = SimulatedDisk()
    log = with_segments(disk, 100)
    steps = delete_segments_before(log, 200, NOW)
    disk.calls.clear()
    step_count = 0
    for step in steps:
        assert not {"fdatasync", "fsync_dir"} & set(disk.calls)
        assert disk.calls.count("rename") <= SEGMENTS_AT_ONCE * len(SEGMENT_SUFFIXES)
        assert disk.calls.count("unlink") <= SEGMENTS_AT_ONCE
        # Whoever reads in between sees a log without what is about to go.
        assert log.log_start_offset > log.segments.base_offsets[0]
        assert len(read_all(log)) * 2 == log.end_offset - log.log_start_offset
        assert step is not None
        step()
        disk.calls.clear()
        step_count += 1
    assert step_count == 2 * -(-100 // SEGMENTS_AT_ONCE)
    assert log.segments.base_offsets == [200]
    assert len(log.doomed) == 100
    assert log.snapshot_offsets == [200]


def test_a_deletion_ends_early_if_the_log_is_closed_meanwhile() -> None:
    for closed_at in range(1, 5):
        disk = SimulatedDisk()
        log = with_segments(disk, 40)
        steps = delete_segments_before(log, 80, NOW)
        for _ in range(closed_at):
            step = next(steps)
            assert step is not None
            step()
        log.close(clean=False)
        disk.calls.clear()
        with pytest.raises(StopIteration):
            next(steps)
        assert disk.calls == []


def test_a_sync_that_fails_in_a_step_ends_the_log() -> None:
    log = with_segments(SimulatedDisk(), 10)
    steps = delete_segments_before(log, 20, NOW)
    next(steps)
    with pytest.raises(StorageError):
        steps.throw(OSError(errno.EIO, "the disk is broken"))
    assert log.is_offline
