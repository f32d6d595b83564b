from __future__ import annotations

import errno
import os
import random
from pathlib import Path

import pytest
from log_helpers import CONFIG, NOW, TOPIC_ID, append, batch_of, open_manager, read_all
from simulated_disk import SimulatedDisk

from oncelog.broker.log.disk import StorageError
from oncelog.broker.log.log_manager import LogManager

OTHER_ID = bytes([99] * 16)


def restart(manager: LogManager) -> LogManager:
    disk = manager.disk
    assert isinstance(disk, SimulatedDisk)
    return open_manager(disk.after_kill())


def test_a_second_process_is_told_so(tmp_path: Path) -> None:
    root = str(tmp_path / "deep" / "data")
    manager = LogManager.open(root, lambda topic: CONFIG)
    with pytest.raises(StorageError) as raised:
        LogManager.open(root, lambda topic: CONFIG)
    assert str(raised.value).startswith(f"data directory {root} is in use by another process; ")
    manager.close()
    LogManager.open(root, lambda topic: CONFIG).close()


def test_a_real_directory(tmp_path: Path) -> None:
    manager = LogManager.open(str(tmp_path), lambda topic: CONFIG)
    list(manager.recover(NOW))
    log = manager.create("t", 3, TOPIC_ID, now_ms=NOW)
    batches = []
    for i in range(50):
        batch = batch_of(2, producer_id=1, epoch=0, sequence=2 * i)
        append(log, batch)
        batches.append(bytes(batch))
    log.flush()
    log.update_high_watermark(100)
    manager.close(broker_epoch=5)
    assert (tmp_path / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":5}'
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\nt 3 100\n"
    assert (tmp_path / "replication-offset-checkpoint").read_text() == "0\n1\nt 3 100\n"
    manager = LogManager.open(str(tmp_path), lambda topic: CONFIG)
    assert manager.was_clean
    assert manager.previous_broker_epoch == 5
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    assert manager.size_bytes("t", 3) == sum(map(len, batches))
    assert not manager.logs, "nothing is opened before it is asked for"
    log = manager.get("t", 3, now_ms=NOW)  # type: ignore[assignment]
    assert read_all(log) == batches
    assert log.high_watermark == 100
    assert manager.get("t", 0, now_ms=NOW) is None
    manager.close(clean=False)
    manager = LogManager.open(str(tmp_path), lambda topic: CONFIG)
    assert not manager.was_clean
    assert list(manager.recover(NOW)) == [("t", 3)]
    assert read_all(manager.logs["t", 3]) == batches
    manager.close()


def test_a_broken_partition_does_not_stop_the_others() -> None:
    manager = open_manager(SimulatedDisk())
    for partition in (0, 1):
        append(manager.create("t", partition, TOPIC_ID, now_ms=NOW), batch_of(2))
        manager.logs["t", partition].flush()
    manager.write_checkpoints()
    disk = manager.disk
    assert isinstance(disk, SimulatedDisk)
    disk.names["/data/t-0/" + "0" * 20 + ".log"].data[40] ^= 1  # type: ignore[union-attr]
    manager = restart(manager)
    assert set(manager.failures) == {("t", 0)}
    assert manager.get("t", 1, now_ms=NOW) is not None
    for _ in range(2):
        with pytest.raises(StorageError, match="damaged at offset 0, before the recovery point 2"):
            manager.get("t", 0, now_ms=NOW)
    manager.close()
    assert not restart(manager).previous_broker_epoch >= 0
    again = restart(manager)
    assert set(again.failures) == {("t", 0)}, "no clean mark vouches for it"
    again.delete("t", 0, token="x", now_ms=NOW)
    assert not again.failures
    assert again.create("t", 0, OTHER_ID, now_ms=NOW).end_offset == 0


def test_deletion() -> None:
    manager = open_manager(SimulatedDisk(), CONFIG.replace(file_delete_delay_ms=1000))
    log = manager.create("t", 0, TOPIC_ID, now_ms=NOW)
    append(log, batch_of(5))
    log.flush()
    manager.write_checkpoints()
    manager.delete("t", 0, token="abc", now_ms=NOW)
    manager.delete("t", 0, token="abc", now_ms=NOW)
    with pytest.raises(StorageError, match="closed"):
        append(log, batch_of())
    assert manager.partitions() == []
    assert manager.disk.exists("/data/t-0.abc-delete")
    # A new topic of the same name is a new log, also after a crash.
    new = manager.create("t", 0, OTHER_ID, now_ms=NOW)
    assert new.end_offset == 0
    crashed = restart(manager)
    assert not crashed.failures
    assert crashed.get("t", 0, now_ms=NOW).topic_id == OTHER_ID  # type: ignore[union-attr]
    crashed.maybe_remove_files(NOW)
    assert not crashed.disk.exists("/data/t-0.abc-delete")
    manager.maybe_remove_files(NOW + 999)
    assert manager.disk.exists("/data/t-0.abc-delete")
    manager.maybe_remove_files(NOW + 1000)
    assert not manager.disk.exists("/data/t-0.abc-delete")


def test_deletion_on_a_full_disk_makes_room() -> None:
    disk = SimulatedDisk()
    manager = open_manager(disk)
    log = manager.create("t", 0, TOPIC_ID, now_ms=NOW)
    append(log, batch_of(5))
    log.flush()
    manager.write_checkpoints()
    disk.fail("create", errno.ENOSPC)
    manager.delete("t", 0, token="abc", now_ms=NOW)
    assert manager.partitions() == []
    killed = restart(manager)
    assert killed.create("t", 0, OTHER_ID, now_ms=NOW).end_offset == 0
    assert not restart(killed).failures
    # What a checkpoint says of the old topic is not held against a new one, which therefore has to wait.
    with pytest.raises(StorageError, match="No space left"):
        manager.create("t", 0, OTHER_ID, now_ms=NOW)
    manager.maybe_remove_files(NOW)
    assert not disk.exists("/data/t-0.abc-delete")
    assert manager.create("t", 0, OTHER_ID, now_ms=NOW).end_offset == 0
    crashed = restart(manager)
    assert not crashed.failures
    assert crashed.logs["t", 0].topic_id == OTHER_ID


def test_long_names_fit() -> None:
    manager = open_manager(SimulatedDisk())
    topic = "x" * 249
    manager.create(topic, 0, TOPIC_ID, now_ms=NOW)
    manager.delete(topic, 0, token="a" * 32, now_ms=NOW)
    (doomed,) = [name for name in manager.disk.listdir("/data") if name.endswith("-delete")]
    assert len(doomed) == 255


def test_a_topic_id_must_match() -> None:
    manager = open_manager(SimulatedDisk())
    assert manager.create("t", 0, TOPIC_ID, now_ms=NOW) is manager.create("t", 0, TOPIC_ID, now_ms=NOW)
    with pytest.raises(StorageError, match="belongs to topic id"):
        manager.create("t", 0, OTHER_ID, now_ms=NOW)


def test_deleted_records_stay_deleted() -> None:
    manager = open_manager(SimulatedDisk())
    log = manager.create("t", 0, TOPIC_ID, now_ms=NOW)
    for _ in range(5):
        append(log, batch_of(2))
    log.flush()
    log.update_high_watermark(10)
    assert log.delete_records_before(3) == 3
    manager.write_checkpoints()
    manager = restart(manager)
    log = manager.logs["t", 0]
    assert log.log_start_offset == 3
    assert log.high_watermark == 10
    assert log.epochs.entries() == [(0, 3)]
    assert log.delete_records_before(-1) == 10


def test_truncation_lowers_the_checkpoint_first() -> None:
    manager = open_manager(SimulatedDisk())
    log = manager.create("t", 0, TOPIC_ID, now_ms=NOW)
    for _ in range(5):
        append(log, batch_of(2))
    log.flush()
    manager.write_checkpoints()
    with pytest.raises(AssertionError):
        log.truncate_to(4, now_ms=NOW)
    assert manager.truncate_to(log, 4, now_ms=NOW)
    assert not manager.truncate_to(log, 4, now_ms=NOW)
    assert log.end_offset == 4
    assert manager.disk.read_file("/data/recovery-point-offset-checkpoint") == b"0\n1\nt 0 4\n"
    manager.truncate_fully_and_start_at(log, 100, now_ms=NOW)
    assert (log.log_start_offset, log.end_offset, log.high_watermark) == (100, 100, 100)
    assert append(log, batch_of()).first_offset == 100
    manager.truncate_fully_and_start_at(log, 7, now_ms=NOW)
    assert append(log, batch_of()).first_offset == 7
    log.flush()
    assert read_all(restart(manager).logs["t", 0])


def test_settings_change_on_a_live_log() -> None:
    config = CONFIG
    manager = LogManager.open("/data", lambda topic: config, SimulatedDisk())
    log = manager.create("t", 0, TOPIC_ID, now_ms=NOW)
    config = CONFIG.replace(max_message_bytes=7)
    manager.update_config("t", 1)
    assert log.config.max_message_bytes == 7


def test_meta_properties() -> None:
    manager = open_manager(SimulatedDisk())
    assert manager.meta_properties() is None
    manager.write_meta_properties({"cluster.id": "c", "node.id": "1", "directory.id": "d"})
    properties = restart(manager).meta_properties()
    assert properties is not None
    assert properties["cluster.id"] == "c"


def test_names_that_are_no_partitions_are_left_alone() -> None:
    disk = SimulatedDisk()
    disk.mkdir("/data")
    for name in ("lost+found", "t-x", "t", "a-b-3", "t-01"):
        disk.mkdir(f"/data/{name}")
        disk.close(disk.open(f"/data/{name}/partition.metadata", writable=True, create=True))
    assert open_manager(disk).partitions() == [("a-b", 3)]


def test_a_checkpoint_says_that_an_emptied_directory_was_a_partition() -> None:
    """Else its records would be missed by nobody."""
    manager = open_manager(SimulatedDisk())
    append(manager.create("t", 0, TOPIC_ID, now_ms=NOW), batch_of(2))
    manager.logs["t", 0].flush()
    manager.write_checkpoints()
    for name in manager.disk.listdir("/data/t-0"):
        manager.disk.unlink(f"/data/t-0/{name}")
    manager = restart(manager)
    assert "ends at offset 0, but was on disk up to 2" in manager.failures["t", 0]


class CountingDisk(SimulatedDisk):
    syncs = 0

    def fdatasync(self, fd: int) -> None:
        self.syncs += 1
        super().fdatasync(fd)

    def fsync_dir(self, path: str) -> None:
        self.syncs += 1
        super().fsync_dir(path)


def open_file_count(root: Path) -> int:
    """Of the files below a directory: other tests of the process may open and close theirs meanwhile."""
    links = [Path("/proc/self/fd") / fd for fd in os.listdir("/proc/self/fd")]
    return sum(link.is_symlink() and link.resolve().is_relative_to(root.resolve()) for link in links)


def test_new_partitions_hold_few_files_and_need_no_sync_to_be_closed(tmp_path: Path) -> None:
    manager = LogManager.open(str(tmp_path), lambda topic: CONFIG, open_files_max=10)
    list(manager.recover(NOW))
    before = open_file_count(tmp_path)
    for partition in range(50):
        manager.create("t", partition, TOPIC_ID, now_ms=NOW).assign_epoch(0, 0)
    assert open_file_count(tmp_path) == before + 10
    for log in manager.logs.values():
        append(log, batch_of(2))
        log.flush()
    assert open_file_count(tmp_path) == before + 10
    manager.close()


@pytest.mark.parametrize("seed", range(20))
def test_logs_that_were_never_written_are_closed_without_a_sync(seed: int) -> None:
    syncs = []
    for count in (1, 20):
        disk = CountingDisk()
        manager = open_manager(disk)
        for partition in range(count):
            manager.create("t", partition, TOPIC_ID, now_ms=NOW).assign_epoch(0, 0)
        disk.syncs = 0
        manager.close()
        syncs.append(disk.syncs)
    assert syncs[0] == syncs[1]
    # A power cut may take what was not synced; then it is made again.
    manager = open_manager(disk.after_power_cut(random.Random(seed)))
    for partition in range(20):
        log = manager.create("t", partition, TOPIC_ID, now_ms=NOW)
        append(log, batch_of(2))
        assert log.flush() == 2
    manager.write_checkpoints()
    assert isinstance(manager.disk, SimulatedDisk)
    manager = open_manager(manager.disk.after_power_cut(random.Random(seed)))
    assert not manager.failures
    assert [(log.topic_id, log.end_offset) for log in manager.logs.values()] == [(TOPIC_ID, 2)] * 20
