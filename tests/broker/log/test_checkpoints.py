from __future__ import annotations

import random

import pytest
from simulated_disk import SimulatedCrash, SimulatedDisk

from oncelog.broker.log import checkpoints
from oncelog.broker.log.disk import StorageError

OFFSETS = {("a", 0): 5, ("with.dots_and-dashes", 12): 2**40}


def make_disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.mkdir("/d")
    disk.fsync_dir("/")
    return disk


def test_offsets_are_written_as_kafka_does() -> None:
    disk = make_disk()
    checkpoints.write_offsets(disk, "/d/c", OFFSETS)
    assert disk.read_file("/d/c") == b"0\n2\na 0 5\nwith.dots_and-dashes 12 1099511627776\n"
    assert checkpoints.read_offsets(disk, "/d/c") == OFFSETS
    assert checkpoints.read_offsets(disk, "/d/other") == {}
    disk.write_file_durably("/d/new", b"")
    assert checkpoints.read_offsets(disk, "/d/new") == {}, "Kafka's own, before its first checkpoint"


@pytest.mark.parametrize("data", [b"0\n", b"1\n0\n", b"0\n2\na 0 5\n", b"0\nx\n", b"0\n1\na 0\n", b"\xff\n"])
def test_a_damaged_checkpoint_is_an_error(data: bytes) -> None:
    disk = make_disk()
    disk.write_file_durably("/d/c", data)
    with pytest.raises(StorageError, match="/d/c is damaged"):
        checkpoints.read_offsets(disk, "/d/c")


def test_a_crash_leaves_the_old_or_the_new() -> None:
    for n in range(1, 10):
        disk = make_disk()
        checkpoints.write_offsets(disk, "/d/c", {("a", 0): 1})
        disk.crash_at = len(disk.calls) + n
        try:
            checkpoints.write_offsets(disk, "/d/c", {("a", 0): 2})
            new = {2}
        except SimulatedCrash:
            new = {1, 2}
        for seed in range(20):
            left = disk.after_power_cut(random.Random(seed))
            assert checkpoints.read_offsets(left, "/d/c")["a", 0] in new


def test_partition_metadata() -> None:
    disk = make_disk()
    topic_id = bytes.fromhex("00112233445566778899aabbccddeeff")
    content = checkpoints.encode_partition_metadata(topic_id)
    assert content == b"version: 0\ntopic_id: ABEiM0RVZneImaq7zN3u_w"
    assert checkpoints.read_partition_metadata(disk, "/d") is None
    disk.write_file_durably("/d/partition.metadata", content)
    assert checkpoints.read_partition_metadata(disk, "/d") == topic_id
    disk.write_file_durably("/d/partition.metadata", content[:20])
    assert checkpoints.read_partition_metadata(disk, "/d") is None


def test_the_clean_mark_is_taken_once_and_for_all() -> None:
    disk = make_disk()
    assert checkpoints.take_clean_shutdown(disk, "/d") is None
    checkpoints.write_clean_shutdown(disk, "/d", 42)
    assert disk.read_file("/d/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":42}'
    assert checkpoints.take_clean_shutdown(disk, "/d") == 42
    cut = disk.after_power_cut(random.Random(1))
    assert checkpoints.take_clean_shutdown(cut, "/d") is None
    disk.write_file_durably("/d/.kafka_cleanshutdown", b"")
    assert checkpoints.take_clean_shutdown(disk, "/d") == -1


def test_a_clean_mark_does_not_come_back_if_the_start_that_took_it_was_killed() -> None:
    disk = make_disk()
    checkpoints.write_clean_shutdown(disk, "/d", 42)
    disk.crash_at = len(disk.calls) + 2
    with pytest.raises(SimulatedCrash):
        checkpoints.take_clean_shutdown(disk, "/d")
    disk = disk.after_kill()
    assert checkpoints.take_clean_shutdown(disk, "/d") is None
    for seed in range(10):
        cut = disk.after_power_cut(random.Random(seed))
        assert checkpoints.take_clean_shutdown(cut, "/d") is None


def test_meta_properties() -> None:
    disk = make_disk()
    assert checkpoints.read_meta_properties(disk, "/d") is None
    checkpoints.write_meta_properties(disk, "/d", {"cluster.id": "abc=", "node.id": "1"})
    # As java.util.Properties writes it.
    assert disk.read_file("/d/meta.properties") == b"#\nversion=1\ncluster.id=abc\\=\nnode.id=1\n"
    assert checkpoints.read_meta_properties(disk, "/d") == {
        "version": "1",
        "cluster.id": "abc=",
        "node.id": "1",
    }
