from __future__ import annotations

import errno
import logging
import random

import pytest
from log_helpers import CONFIG, NOW, TOPIC_ID, History, append, batch_of, flush_ahead, open_log, read_all
from simulated_disk import SimulatedDisk

from oncelog.broker.log import producer_snapshot
from oncelog.broker.log.disk import StorageError
from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.log.producer_entry import ProducerEntry
from oncelog.protocol.errors import KafkaError
from oncelog.protocol.records.batch import read_header

FIRST_LOG = "/t-0/" + "0" * 20 + ".log"


def filled(batch_count: int = 30) -> tuple[SimulatedDisk, PartitionLog, list[bytes]]:
    disk = SimulatedDisk()
    log = open_log(disk)
    batches = []
    for i in range(batch_count):
        batch = batch_of(2, producer_id=1, epoch=0, sequence=2 * i)
        append(log, batch)
        batches.append(bytes(batch))
    log.flush()
    return disk, log, batches


def data_of(disk: SimulatedDisk, path: str) -> bytearray:
    file = disk.names[path]
    assert file is not None
    return file.data


def test_a_clean_open_reads_a_few_bytes_only() -> None:
    disk, log, batches = filled(2000)
    log.close()

    class Counting(SimulatedDisk):
        read_bytes = 0

        def pread(self, fd: int, size_bytes: int, position: int) -> bytes:
            data = super().pread(fd, size_bytes, position)
            Counting.read_bytes += len(data)
            return data

    again = Counting()
    again.names = disk.names
    log = open_log(again, clean=True, recovery_point=4000)
    assert Counting.read_bytes < 2000
    assert len(again.descriptors) <= 1
    assert log.end_offset == 4000
    assert next(log.active_producers()).last_sequence == 3999
    assert read_all(log) == batches


def test_an_unclean_open_of_a_log_that_nobody_wrote_needs_no_scan() -> None:
    disk, log, _ = filled(50)
    log.close()
    left = disk.after_kill()
    log = open_log(left, clean=False, recovery_point=100)
    assert log.end_offset == 100
    assert left.calls == ["fdatasync"], "of its snapshot, which may not be on the device"


def test_damage_before_the_recovery_point_is_refused_and_nothing_is_changed() -> None:
    disk, log, _ = filled()
    end = log.end_offset
    log.close(clean=False)
    last = log.segments.items[-1]
    start = last.base_offset
    data = data_of(disk, last.path(".log"))
    data[30] ^= 1
    before = {name: bytes(file.data) for name, file in disk.names.items() if file is not None}
    with pytest.raises(StorageError, match=f"damaged at offset {start}, before the recovery point {end}"):
        open_log(disk, recovery_point=end)
    assert {name: bytes(file.data) for name, file in disk.names.items() if file is not None} == before
    # Behind the recovery point the same bytes are a torn write.
    log = open_log(disk, recovery_point=start)
    assert log.end_offset == start


def test_missing_records_before_the_recovery_point_are_refused() -> None:
    disk, log, _ = filled()
    log.close(clean=False)
    path = log.segments.items[-1].path(".log")
    size = read_header(bytes(data_of(disk, path))).size_bytes
    del data_of(disk, path)[-size:]
    for clean in (True, False):
        with pytest.raises(StorageError, match="was on disk up to 60"):
            open_log(disk.after_kill(), recovery_point=60, clean=clean)


def test_a_lost_middle_segment_ends_the_log() -> None:
    disk, log, batches = filled()
    log.close(clean=False)
    bases = log.segments.base_offsets
    disk.unlink(log.segments.items[2].path(".log"))
    log = open_log(disk, recovery_point=0)
    assert log.end_offset == bases[2]
    assert read_all(log) == [batch for batch in batches if read_header(batch).base_offset < bases[2]]
    assert append(log, batch_of()).first_offset == bases[2]


def test_a_full_disk_can_be_read_after_a_crash() -> None:
    config = CONFIG.replace(segment_bytes=100_000)
    disk = SimulatedDisk()
    log = open_log(disk, config=config)
    batches = [batch_of(2) for _ in range(20)]
    for batch in batches:
        append(log, batch)
    flush_ahead(log)
    killed = disk.after_kill()
    for kind in ("create", "pwrite"):
        killed.fail(kind, *[errno.ENOSPC] * 1000)
    log = open_log(killed, config=config)
    assert read_all(log) == [bytes(batch) for batch in batches]
    with pytest.raises(KafkaError, match="No space left"):
        append(log, batch_of())
    killed.failures.clear()
    append(log, batch_of())
    log.close()
    again = open_log(killed, config=config, clean=True, recovery_point=41)
    assert len(read_all(again)) == 21


def test_a_gap_between_files_ends_a_compacted_log_too() -> None:
    disk, log, _ = filled()
    log.close(clean=False)
    bases = log.segments.base_offsets
    size = len(data_of(disk, FIRST_LOG))
    del data_of(disk, log.segments.items[1].path(".log"))[size // 5 :]
    log = open_log(disk, recovery_point=0, config=CONFIG.replace(cleanup_compact=True))
    assert bases[1] < log.end_offset < bases[2]
    assert log.segments.base_offsets == bases[:2]


def test_a_snapshot_of_another_history_is_not_believed() -> None:
    disk, log, _ = filled(3)
    log.close(clean=False)
    stranger = ProducerEntry(99, 0)
    disk.write_file_durably("/t-0/00000000000000000004.snapshot", producer_snapshot.encode([stranger]))
    log = open_log(disk, recovery_point=2)
    assert [entry.producer_id for entry in log.active_producers()] == [1]
    log.checkpointed_recovery_point = 0
    log.truncate_to(4, now_ms=NOW)
    assert [entry.producer_id for entry in log.active_producers()] == [1]


def test_an_index_that_a_truncation_left_is_not_believed() -> None:
    disk, log, _ = filled(4)
    log.close()
    log = open_log(disk, clean=True)
    log.truncate_to(0, now_ms=NOW)
    log = open_log(disk.after_kill())
    append(log, batch_of(2))
    log.close()
    log = open_log(log.disk, clean=True, recovery_point=2)
    assert log.end_offset == 2
    assert len(read_all(log)) == 1


def test_a_closing_does_not_vouch_for_indexes_that_changed_since() -> None:
    """The power goes after a roll: the records are as at the last close, the abort index is torn."""
    disk = SimulatedDisk()
    log = open_log(disk)
    marker = {"producer_epoch": 0, "commit": False, "coordinator_epoch": 0, "leader_epoch": 0, "now_ms": NOW}
    append(log, batch_of(2, producer_id=1, epoch=0, sequence=0, transactional=True))
    log.append_marker(producer_id=1, **marker)
    log.close()
    log = open_log(disk, clean=True, recovery_point=3)
    append(log, batch_of(1, producer_id=1, epoch=0, sequence=2, transactional=True))
    log.append_marker(producer_id=1, **marker)
    log.roll(now_ms=NOW)
    left = disk.after_kill()
    for path, file in list(left.names.items()):
        if file is not None and path not in left.durable_names:
            del left.names[path]
        elif file is not None:
            file.data = bytearray(file.durable)
    data_of(left, "/t-0/" + "0" * 20 + ".txnindex")[:] = b""
    log = open_log(left, recovery_point=3)
    assert log.end_offset == 3
    assert log.aborted_transactions(0, 3) == [(1, 0, 2, 3)]


def test_every_torn_tail() -> None:
    disk, log, batches = filled(12)
    log.close(clean=False)
    path = log.segments.items[-1].path(".log")
    whole = bytes(data_of(disk, path))
    base = log.active.base_offset
    for size in range(len(whole)):
        left = disk.after_kill()
        data_of(left, path)[:] = whole[:size]
        log = open_log(left, recovery_point=base)
        kept = [batch for batch in batches if read_header(batch).last_offset < log.end_offset]
        assert read_all(log) == kept
        in_segment = sum(len(batch) for batch in kept if read_header(batch).base_offset >= base)
        assert in_segment <= size < in_segment + len(batches[-1])


def test_a_torn_tail_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="oncelog")
    disk, log, batches = filled(12)
    log.close(clean=False)
    left = disk.after_kill()
    del data_of(left, log.active.path(".log"))[-1:]
    end_offset = read_header(batches[-1]).base_offset
    open_log(left, recovery_point=log.active.base_offset)
    (told,) = caplog.messages
    assert f"{len(batches[-1]) - 1} bytes behind offset {end_offset} were not written whole" in told


def test_zeros_behind_the_end_are_no_records() -> None:
    disk, log, batches = filled(5)
    log.close(clean=False)
    data_of(disk, log.active.path(".log")).extend(bytes(5000))
    log = open_log(disk, recovery_point=10)
    assert read_all(log) == batches


def test_every_flipped_bit_of_the_tail_is_found() -> None:
    disk, log, batches = filled(4)
    log.close(clean=False)
    size = len(data_of(disk, FIRST_LOG))
    rng = random.Random(1)
    for bit in rng.sample(range(size * 8), 300):
        left = disk.after_kill()
        data_of(left, FIRST_LOG)[bit // 8] ^= 1 << bit % 8
        log = open_log(left)
        expected = bit // 8 // len(batches[0])
        in_batch = bit // 8 % len(batches[0])
        # The leader epoch is outside the checksum and cannot be wrong by itself.
        if not 12 <= in_batch < 16:
            assert read_all(log) == batches[:expected]


def test_indexes_and_snapshots_are_those_of_the_first_time() -> None:
    disk, log, _ = filled(40)
    log.append_marker(producer_id=1, producer_epoch=0, commit=False, coordinator_epoch=0, leader_epoch=0, now_ms=NOW)
    log.close()
    before = {name: bytes(file.data) for name, file in disk.names.items() if file is not None}
    for name in list(disk.names):
        if name.endswith(("index", ".snapshot")):
            del disk.names[name]
    log = open_log(disk)
    log.close()
    after = {name: bytes(file.data) for name, file in disk.names.items() if file is not None}
    assert after == before


def test_a_damaged_snapshot_is_replaced_by_an_older_one_and_replay() -> None:
    disk, log, _ = filled(40)
    expected = log.producers.state()
    log.close()
    snapshots = sorted(name for name in disk.names if name.endswith(".snapshot"))
    for name in snapshots[-2:]:
        data_of(disk, name)[-1] ^= 1
    log = open_log(disk, clean=True, recovery_point=80)
    assert log.producers.state() == expected
    for name in snapshots[:-2]:
        data_of(disk, name)[-1] ^= 1
    log.close(clean=False)
    log = open_log(disk.after_kill(), clean=True, recovery_point=80)
    assert log.producers.state() == expected


@pytest.mark.parametrize("left", [b"0\n9\n", b"0\n", b""])
def test_a_damaged_epoch_file_is_rebuilt_from_the_records(left: bytes) -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    for epoch in (0, 0, 3, 3, 4):
        append(log, batch_of(2), leader_epoch=epoch)
    log.close()
    data_of(disk, "/t-0/leader-epoch-checkpoint")[:] = left
    for clean in (True, False):
        log = open_log(disk.after_kill(), clean=clean, recovery_point=10)
        assert log.epochs.entries() == [(0, 0), (3, 4), (4, 8)]


@pytest.mark.parametrize(("clean", "unflushed_count"), [(False, 0), (False, 1), (True, 0)])
def test_a_directory_that_a_killed_process_made_is_there_to_stay(clean: bool, unflushed_count: int) -> None:
    made = SimulatedDisk()
    log = open_log(made)
    for _ in range(unflushed_count):
        append(log, batch_of())
    if clean:
        log.close()
    disk = made.after_kill()
    log = open_log(disk, clean=clean)
    append(log, batch_of(2))
    log.flush()
    for seed in range(10):
        left = disk.after_power_cut(random.Random(seed))
        assert read_all(open_log(left, recovery_point=log.recovery_point)) == read_all(log)


def test_a_log_that_was_flushed_does_not_sync_the_directory_above_it() -> None:
    disk, log, _ = filled(2)
    log.close()
    log = open_log(disk, clean=True, recovery_point=log.recovery_point)
    append(log, batch_of())
    assert "/" not in log.dirty_directories


def test_epochs_of_lost_records_are_forgotten() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    append(log, batch_of(2), leader_epoch=1)
    log.flush()
    append(log, batch_of(2), leader_epoch=2)
    del data_of(disk, FIRST_LOG)[-5:]
    log = open_log(disk, recovery_point=2)
    assert log.epochs.entries() == [(1, 0)]
    assert log.offset_for_epoch(1) == (1, 2)
    assert log.offset_for_epoch(2) == (-1, -1)


def test_a_log_start_behind_the_end_starts_over() -> None:
    disk, log, _ = filled(3)
    log.close(clean=False)
    log = open_log(disk, recovery_point=0, log_start_offset=50)
    assert (log.log_start_offset, log.end_offset) == (50, 50)
    assert log.segments.base_offsets == [50]
    assert not list(log.active_producers())
    append(log, batch_of())
    log.close()
    assert open_log(disk, clean=True, recovery_point=51, log_start_offset=50).end_offset == 51


def test_a_topic_id_that_differs_is_refused() -> None:
    disk, log, _ = filled(1)
    log.close()
    with pytest.raises(StorageError, match="belongs to topic id"):
        PartitionLog.open(
            "/t-0", CONFIG, disk, topic="t", partition=0, topic_id=bytes([8] * 16), clean=True, now_ms=NOW
        )
    log = PartitionLog.open("/t-0", CONFIG, disk, topic="t", partition=0, topic_id=None, clean=True, now_ms=NOW)
    assert log.topic_id == TOPIC_ID


def test_orphaned_indexes_are_removed() -> None:
    disk, log, _ = filled(30)
    log.close()
    disk.unlink(FIRST_LOG)
    log = open_log(disk, clean=True, recovery_point=60)
    assert log.log_start_offset == log.segments.base_offsets[0] > 0
    assert "/t-0/" + "0" * 20 + ".index" not in disk.names


def test_an_open_transaction_survives_deletion_of_its_records() -> None:
    """A producer with an open transaction and no data left must not be lost from the snapshot."""
    disk = SimulatedDisk()
    log = open_log(disk)
    history = History()
    first = batch_of(1, producer_id=7, epoch=0, sequence=0, transactional=True)
    append(log, first)
    history.add(first)
    for _ in range(20):
        batch = batch_of(2)
        append(log, batch)
        history.add(batch)
    log.flush()
    log.update_high_watermark(log.end_offset)
    log.delete_segments_before(log.active.base_offset, now_ms=NOW)
    log.maybe_remove_files(NOW)
    assert log.last_stable_offset == log.log_start_offset
    for clean in (True, False):
        if clean:
            log.close()
        left = open_log(disk.after_kill(), clean=clean, recovery_point=0)
        left.update_high_watermark(left.end_offset)
        assert left.has_ongoing_transaction(7, 0)
        assert left.last_stable_offset == left.log_start_offset
        history.check_state(left)
        left.append_marker(
            producer_id=7, producer_epoch=0, commit=False, coordinator_epoch=0, leader_epoch=0, now_ms=NOW
        )
        left.update_high_watermark(left.end_offset)
        assert left.last_stable_offset == left.end_offset


def test_a_block_of_zeros_whose_write_failed_takes_the_next_record() -> None:
    """The device shows the zeros as they should be, although it never got them."""
    for seed in range(50):
        disk = SimulatedDisk()
        disk.rng = random.Random(seed)
        log = open_log(disk)
        disk.fail("fdatasync", errno.EIO)
        append(log, batch_of(value=bytes(300)))
        with pytest.raises(StorageError, match="a sync failed"):
            log.flush()
        disk = disk.after_kill()
        log = open_log(disk)
        append(log, batch_of(value=b"next"))
        log.flush()
        left = disk.after_power_cut(random.Random(seed))
        assert read_all(open_log(left)) == read_all(log)
        assert log.end_offset == 2


def test_a_segment_that_a_killed_process_began_is_there_to_stay() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    append(log, batch_of())
    log.flush()
    log.roll(now_ms=NOW)
    disk = disk.after_kill()
    log = open_log(disk, recovery_point=1)
    assert log.segments.base_offsets == [0, 1]
    append(log, batch_of())
    log.flush()
    for seed in range(20):
        left = disk.after_power_cut(random.Random(seed))
        assert open_log(left, recovery_point=1).end_offset == 2


def test_a_lost_snapshot_of_a_segment_is_written_again() -> None:
    """It is all that is left of a producer whose records are deleted."""
    disk = SimulatedDisk()
    log = open_log(disk)
    append(log, batch_of(producer_id=1, epoch=0, sequence=0))
    log.flush()
    log.roll(now_ms=NOW)
    log.close(clean=False)
    # Written when the segment began, and not synced.
    data_of(disk, log.snapshot_path(1)).clear()
    log = open_log(disk, recovery_point=1)
    assert log.snapshot_offsets == [1]
    log.update_high_watermark(1)
    log.delete_segments_before(1, now_ms=NOW)
    append(log, batch_of())
    log.flush()
    log = open_log(disk.after_kill(), recovery_point=1)
    assert log.segments.base_offsets == [1]
    assert list(log.producers.entries) == [1]
