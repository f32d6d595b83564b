"""Zeros behind the last record, so that a sync need not tell the file system of a new length."""

from __future__ import annotations

import errno
import logging
import random

import pytest
from log_helpers import CONFIG, NOW, append, batch_of, flush_ahead, open_log, read_all
from simulated_disk import SimulatedDisk

from oncelog.broker.log.disk import StorageError
from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.log.segment import ROOM_BYTES_MAX, ROOM_FOR_BYTES_MAX
from oncelog.protocol.errors import KafkaError

BIG = LogConfig(segment_bytes=1 << 30, transaction_verification=False, file_delete_delay_ms=0)
FIRST = "/t-0/00000000000000000000.log"


def length(disk: SimulatedDisk, path: str = FIRST) -> int:
    file = disk.names[path]
    assert file is not None
    return len(file.data)


def synced_log(disk: SimulatedDisk, count: int = 1) -> PartitionLog:
    log = open_log(disk, config=BIG)
    for _ in range(count):
        append(log, batch_of())
        flush_ahead(log)
    return log


def test_syncs_after_the_first_find_the_length_as_it_is() -> None:
    disk = SimulatedDisk()
    log = synced_log(disk)
    lengths = []
    for _ in range(20):
        append(log, batch_of())
        flush_ahead(log)
        lengths.append(length(disk))
    assert lengths == [4096] * 20
    assert log.flushed_offset == log.end_offset == 21


def test_the_room_takes_no_more_than_the_records_or_a_block_and_has_a_bound() -> None:
    disk = SimulatedDisk()
    log = open_log(disk, config=BIG)
    lengths = set()
    while log.size_bytes < 2 * ROOM_BYTES_MAX:
        append(log, batch_of(value=bytes(10_000)))
        flush_ahead(log)
        lengths.add(length(disk))
        assert length(disk) <= max(4096, 2 * log.size_bytes + 4096)
        assert length(disk) <= log.size_bytes + ROOM_BYTES_MAX + 4096
    assert len(lengths) < 10


def test_no_room_for_large_syncs_nor_beyond_the_segment() -> None:
    disk = SimulatedDisk()
    log = open_log(disk, config=BIG)
    append(log, batch_of(value=bytes(ROOM_FOR_BYTES_MAX)))
    flush_ahead(log)
    assert length(disk) == log.size_bytes
    small = open_log(disk, "/u-0")
    append(small, batch_of())
    flush_ahead(small)
    assert length(disk, "/u-0/00000000000000000000.log") == CONFIG.segment_bytes


def test_a_closed_log_has_none() -> None:
    disk = SimulatedDisk()
    log = synced_log(disk, 3)
    size_bytes = log.size_bytes
    assert length(disk) > size_bytes
    log.close()
    assert length(disk) == size_bytes
    log = open_log(disk, config=BIG, clean=True, recovery_point=3)
    assert len(read_all(log)) == 3


@pytest.mark.parametrize("seed", range(20))
def test_a_segment_that_was_left_has_none_after_a_power_cut(seed: int) -> None:
    disk = SimulatedDisk()
    log = synced_log(disk, 3)
    stored = read_all(log)
    log.roll(now_ms=NOW)
    left = disk.after_power_cut(random.Random(seed))
    if len([name for name in left.names if name.endswith(".log")]) > 1:
        assert length(left) == sum(map(len, stored)), "recovery does not look at it"
    assert read_all(open_log(left, config=BIG, recovery_point=3)) == stored


def test_recovery_cuts_it_off_and_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    disk = SimulatedDisk()
    log = synced_log(disk, 3)
    left = disk.after_kill()
    again = open_log(left, config=BIG, recovery_point=3)
    assert read_all(again) == read_all(log)
    assert length(left) == log.size_bytes
    assert not caplog.records


def test_half_a_batch_within_it_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    disk = SimulatedDisk()
    log = synced_log(disk, 3)
    end = log.size_bytes
    append(log, batch_of())
    left = disk.after_kill()
    file = left.names[FIRST]
    assert file is not None
    file.data[log.size_bytes - 5 : log.size_bytes] = bytes(5)
    again = open_log(left, config=BIG, recovery_point=3)
    assert again.end_offset == 3
    assert length(left) == end
    assert "behind offset 3 were not written whole" in caplog.text


def test_a_disk_without_space_for_it_takes_records_all_the_same() -> None:
    disk = SimulatedDisk()
    log = open_log(disk, config=BIG)
    for _ in range(3):
        append(log, batch_of())
        disk.fail("pwrite", errno.ENOSPC)
        flush_ahead(log)
        disk.failures.clear()
    assert log.flushed_offset == 3
    stored = read_all(log)
    log.close()
    assert length(disk) == sum(map(len, stored))
    assert read_all(open_log(disk, config=BIG, clean=True, recovery_point=3)) == stored


def test_what_it_took_of_a_disk_without_space_is_given_back() -> None:
    disk = SimulatedDisk()
    log = open_log(disk, config=BIG)
    append(log, batch_of())
    disk.fail("pwrite", errno.ENOSPC)
    flush_ahead(log)
    assert length(disk) == log.size_bytes


@pytest.mark.parametrize("recovery_point", [0, 4])
def test_a_failed_append_before_the_segment_is_left(recovery_point: int) -> None:
    """The cut that undoes it must not be lost once there are records behind the segment."""
    for seed in range(30):
        disk = SimulatedDisk()
        log = synced_log(disk, 3)
        disk.fail("pwrite", errno.ENOSPC)
        with pytest.raises(KafkaError):
            append(log, batch_of(value=bytes(9000)))
        log.roll(now_ms=NOW)
        append(log, batch_of())
        flush_ahead(log)
        left = disk.after_power_cut(random.Random(seed))
        assert read_all(open_log(left, config=BIG, recovery_point=recovery_point)) == read_all(log)


def test_a_segment_that_could_not_be_left_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_descriptor(_: int) -> int:
        raise OSError(errno.EMFILE, "too many open files")

    for seed in range(30):
        disk = SimulatedDisk()
        log = synced_log(disk, 3)
        with monkeypatch.context() as patch:
            patch.setattr(disk, "dup", no_descriptor)
            with pytest.raises(KafkaError):
                log.roll(now_ms=NOW)
        log.roll(now_ms=NOW)
        left = disk.after_power_cut(random.Random(seed))
        assert read_all(open_log(left, config=BIG, recovery_point=3)) == read_all(log)


def test_only_a_tail_is_flushed_as_one() -> None:
    log = synced_log(SimulatedDisk())
    append(log, batch_of())
    log.roll(now_ms=NOW)
    assert log.unsynced_tail_bytes == -1
    with pytest.raises(AssertionError, match="more than the tail"):
        log.flush_tail()


def test_a_sync_that_fails_ends_the_log() -> None:
    disk = SimulatedDisk()
    log = synced_log(disk)
    append(log, batch_of())
    disk.fail("fdatasync", errno.EIO)
    with pytest.raises(StorageError, match="a sync failed"):
        log.flush_tail()
    assert log.flushed_offset == 1
    with pytest.raises(StorageError, match="offline"):
        log.flush_tail()
