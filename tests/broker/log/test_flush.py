from __future__ import annotations

import errno
import random
import threading

import pytest
from log_helpers import CONFIG, NOW, append, batch_of, open_log, read_all
from simulated_disk import SimulatedDisk

from oncelog.broker.log.disk import StorageError


def test_nothing_to_flush_needs_no_ticket() -> None:
    log = open_log(SimulatedDisk())
    log.flush()
    assert log.begin_flush() is None
    append(log, batch_of())
    assert log.begin_flush() is not None


def test_a_ticket_covers_what_was_there_when_it_began() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    append(log, batch_of(2))
    ticket = log.begin_flush()
    assert ticket is not None
    append(log, batch_of(3))
    thread = threading.Thread(target=ticket.run)
    thread.start()
    thread.join()
    assert log.flushed_offset == 0, "only complete_flush moves it"
    assert log.complete_flush(ticket) == 2
    assert log.flush() == 5


def test_a_segment_that_is_synced_is_not_opened_for_the_next_flush() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    append(log, batch_of(2))
    log.flush()
    old = log.active
    log.roll()
    assert old not in log.dirty_segments
    append(log, batch_of(1))
    assert log.flush() == 3


def test_a_flush_after_rolls_syncs_every_segment() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    for i in range(20):
        append(log, batch_of(2, producer_id=1, epoch=0, sequence=2 * i))
    assert len(log.segments.items) > 3
    log.flush()
    expected = read_all(log)
    cut = open_log(disk.after_power_cut(random.Random(1)), recovery_point=40)
    assert read_all(cut) == expected


def test_one_ticket_at_a_time() -> None:
    log = open_log(SimulatedDisk())
    append(log, batch_of())
    log.begin_flush()
    with pytest.raises(AssertionError):
        log.begin_flush()


@pytest.mark.parametrize("kind", ["fdatasync", "fsync_dir"])
def test_a_failed_sync_ends_the_log(kind: str) -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    append(log, batch_of())
    disk.fail(kind, errno.EIO)
    with pytest.raises(StorageError, match="a sync failed"):
        log.flush()
    assert log.flushed_offset == 0
    for call in (
        lambda: append(log, batch_of()),
        lambda: log.flush(),
        lambda: log.read(0, size_bytes_max=1, end_offset=1),
        lambda: log.roll(),
    ):
        with pytest.raises(StorageError, match="offline"):
            call()
    log.close()
    assert not disk.descriptors


def test_a_truncation_shrinks_the_flush_under_way() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    append(log, batch_of(2))
    append(log, batch_of(2))
    ticket = log.begin_flush()
    assert ticket is not None
    log.truncate_to(2, now_ms=NOW)
    append(log, batch_of(5))
    ticket.run()
    assert log.complete_flush(ticket) == 2
    assert log.flush() == 7


def test_descriptors_are_given_back() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    for _ in range(30):
        append(log, batch_of(2))
    ticket = log.begin_flush()
    assert ticket is not None
    ticket.run()
    log.complete_flush(ticket)
    assert len(disk.descriptors) == len(log.files)
    log.close()
    assert not disk.descriptors


def test_old_files_are_closed_when_too_many_are_open() -> None:
    disk = SimulatedDisk()
    log = open_log(disk, config=CONFIG)
    log.files.files_max = 3
    for _ in range(40):
        append(log, batch_of(2))
        log.flush()
    assert len(log.segments.items) > 6
    expected = read_all(log)
    assert len(log.files) <= 4
    assert len(disk.descriptors) == len(log.files)
    assert read_all(log) == expected


def test_a_log_is_flushed_when_no_descriptor_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    append(log, batch_of())
    log.flush()

    def refuse(_: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(disk, "dup", refuse)
    append(log, batch_of(2))
    assert log.flush() == 3
    assert read_all(open_log(disk.after_power_cut(random.Random(1)), recovery_point=3)) == read_all(log)
    append(log, batch_of())
    disk.fail("fdatasync", errno.EIO)
    with pytest.raises(StorageError, match="Input/output error"):
        log.flush()
    with pytest.raises(StorageError, match="offline"):
        log.flush()


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE])
@pytest.mark.parametrize("lacking", ["open", "fsync_dir"])
def test_what_needs_a_descriptor_waits_for_the_next_flush(
    lacking: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    append(log, batch_of(2))
    ticket = log.begin_flush()
    assert ticket is not None
    with monkeypatch.context() as patch:

        def refuse(*_: object, **__: object) -> int:
            raise OSError(code, "Too many open files")

        patch.setattr(disk, lacking, refuse)
        ticket.run()
        assert ticket.lacks_descriptors
        append(log, batch_of(2))
        assert log.complete_flush(ticket) == 0, "its names are not on disk"
        with pytest.raises(StorageError, match="Too many open files"):
            log.flush()
    assert log.flush() == 4
    assert not log.dirty_paths
    assert not log.dirty_directories
    for seed in range(10):
        left = disk.after_power_cut(random.Random(seed))
        assert read_all(open_log(left, recovery_point=4)) == read_all(log)
    assert len(disk.descriptors) == len(log.files)


def test_what_is_to_be_synced_after_a_truncation() -> None:
    log = open_log(SimulatedDisk())
    append(log, batch_of(2))
    append(log, batch_of(2))
    log.flush()
    before_bytes = log.active.size_bytes
    log.truncate_to(2, now_ms=NOW)
    append(log, batch_of(2))
    log.sync_dirty_files()
    log.dirty_directories.clear()
    assert log.unsynced_tail_bytes == log.active.size_bytes // 2 == before_bytes // 2
