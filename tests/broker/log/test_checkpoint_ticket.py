from __future__ import annotations

import errno

import pytest
from log_helpers import NOW, TOPIC_ID, append, batch_of, open_manager
from simulated_disk import SimulatedDisk

from oncelog.broker.log.disk import StorageError
from oncelog.broker.log.log_manager import LogManager
from oncelog.broker.log.partition_log import PartitionLog

RECOVERY_POINTS = "/data/recovery-point-offset-checkpoint"


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def manager(disk: SimulatedDisk) -> LogManager:
    return open_manager(disk)


@pytest.fixture
def log(manager: LogManager) -> PartitionLog:
    log = manager.create("t", 0, TOPIC_ID, now_ms=NOW)
    write(log, 4)
    return log


def write(log: PartitionLog, count: int) -> None:
    append(log, batch_of(count))
    log.flush()


def test_a_ticket_says_what_was_true_when_it_was_begun(
    manager: LogManager, log: PartitionLog, disk: SimulatedDisk
) -> None:
    ticket = manager.begin_checkpoints()
    write(log, 1)
    ticket.run()
    assert log.checkpointed_recovery_point == 0
    manager.complete_checkpoints(ticket)
    assert log.checkpointed_recovery_point == 4
    assert disk.read_file(RECOVERY_POINTS) == b"0\n1\nt 0 4\n"


def test_nothing_is_written_when_nothing_changed(manager: LogManager, log: PartitionLog) -> None:
    manager.write_checkpoints()
    ticket = manager.begin_checkpoints()
    assert ticket.files == {}


def test_a_late_ticket_overwrites_nothing(manager: LogManager, log: PartitionLog, disk: SimulatedDisk) -> None:
    late = manager.begin_checkpoints()
    write(log, 1)
    manager.write_checkpoints()
    late.run()
    manager.complete_checkpoints(late)
    assert log.checkpointed_recovery_point == 5
    assert disk.read_file(RECOVERY_POINTS) == b"0\n1\nt 0 5\n"


@pytest.mark.parametrize("has_run", [True, False])
def test_truncation_is_not_undone_by_a_ticket_in_flight(
    manager: LogManager, log: PartitionLog, disk: SimulatedDisk, has_run: bool
) -> None:
    """Else a crash would find a log that ends before its recovery point, and refuse it."""
    write(log, 4)
    ticket = manager.begin_checkpoints()
    if has_run:
        ticket.run()
    manager.cleaner_offsets["t", 0] = 8
    manager.truncate_to(log, 4, now_ms=NOW)
    if not has_run:
        ticket.run()
    manager.complete_checkpoints(ticket)
    assert log.checkpointed_recovery_point == 4
    assert disk.read_file(RECOVERY_POINTS) == b"0\n1\nt 0 4\n"
    assert manager.cleaner_offsets == {("t", 0): 4}


def test_after_a_failure_everything_is_written_again(
    manager: LogManager, log: PartitionLog, disk: SimulatedDisk
) -> None:
    ticket = manager.begin_checkpoints()
    disk.fail("rename", 0, errno.EIO)
    ticket.run()
    with pytest.raises(StorageError, match="cannot be written"):
        manager.complete_checkpoints(ticket)
    # The first file was written, and this recovery point must count as one that may be on disk.
    assert disk.read_file(RECOVERY_POINTS) == b"0\n1\nt 0 4\n"
    manager.truncate_to(log, 0, now_ms=NOW)
    assert disk.read_file(RECOVERY_POINTS) == b"0\n1\nt 0 0\n"


@pytest.mark.parametrize("was_written", [True, False])
def test_a_deleted_partition_does_not_come_back(
    manager: LogManager, log: PartitionLog, disk: SimulatedDisk, was_written: bool
) -> None:
    if was_written:
        manager.write_checkpoints()
    write(log, 1)
    ticket = manager.begin_checkpoints()
    manager.delete("t", 0, token="x", now_ms=NOW)
    ticket.run()
    manager.complete_checkpoints(ticket)
    # Nothing that a checkpoint says of it is held against a new partition of the same name.
    manager.create("t", 0, bytes([99] * 16), now_ms=NOW)
    assert disk.read_file(RECOVERY_POINTS) == b"0\n0\n"


def test_a_new_partition_does_not_wait_for_a_ticket_that_does_not_name_it(
    manager: LogManager, log: PartitionLog, disk: SimulatedDisk
) -> None:
    """The ticket runs in a thread, and its lock is held as long as the disk needs."""
    ticket = manager.begin_checkpoints()
    manager.create("brandnew", 0, bytes([5] * 16), now_ms=NOW)
    ticket.run()
    manager.complete_checkpoints(ticket)
    assert ticket.counts, "no later ticket was written meanwhile"
