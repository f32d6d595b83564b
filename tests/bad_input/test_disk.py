"""Row 70: a disk that is full or broken. Nothing is acked that is not there, and space that returns is used."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from oncelog.protocol.records.record import iter_records
from oncelog.testing import Broker
from tests.bad_input.conftest import ErrorLog, StartBroker
from tests.bad_input.faulty_disk import FaultyDisk
from tests.bad_input.live import LiveBroker
from tests.bad_input.raw import RawClient
from tests.bad_input.requests import (
    FETCH_VERSION,
    INT32_MAX,
    PRODUCE_VERSION,
    batch,
    create_topic,
    end_offset,
    fetch,
    fetch_codes,
    produce,
    produce_codes,
    record,
)
from tests.transactions.wire_producer import port_of

TMPFS_BYTES = 4 << 20


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


def produced(client: RawClient, topic: str, value: bytes = b"value", acks: int = -1) -> tuple[int, int]:
    """Code and offset."""
    response = client.call(produce(topic, batch(record(value)), acks=acks), PRODUCE_VERSION)
    (answer,) = response.responses[0].partition_responses
    return answer.error_code, answer.base_offset


def values(client: RawClient, topic: str) -> list[bytes | None]:
    found: list[bytes | None] = []
    while len(found) < end_offset(client, topic):
        asked = fetch(topic, len(found), max_bytes=INT32_MAX, partition_max_bytes=INT32_MAX)
        (part,) = client.call(asked, FETCH_VERSION).responses[0].partitions
        records: Any = memoryview(part.records)
        while records:
            found += [each.value for each in iter_records(records)]
            records = records[12 + int.from_bytes(records[8:12], "big") :]
    return found


@pytest.mark.parametrize("flush_on_ack", ["false", "true"])
@pytest.mark.parametrize("part_bytes", [0, 1, 40])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
def test_a_write_that_fails(
    start_broker: StartBroker, disk: FaultyDisk, error_log: ErrorLog, code: int, part_bytes: int, flush_on_ack: str
) -> None:
    broker = start_broker({"log.flush.on.ack": flush_on_ack}, disk=disk)
    with RawClient(broker.port) as client:
        create_topic(client, "bad")
        create_topic(client, "good")
        assert produced(client, "bad", b"before") == (0, 0)
        disk.broken_directory, disk.write_error, disk.part_bytes = "bad", code, part_bytes
        for acks in (-1, 1):
            assert produced(client, "bad", acks=acks) == (56, -1)
        with RawClient(broker.port) as fire_and_forget:
            fire_and_forget.send(produce("bad", batch(), acks=0), PRODUCE_VERSION)
            fire_and_forget.assert_closed()
        assert produced(client, "good") == (0, 0)
        assert values(client, "bad") == [b"before"]
        disk.write_error = 0
        assert produced(client, "bad", b"after") == (0, 1)
        assert values(client, "bad") == [b"before", b"after"]
    broker.stop()
    said_once(error_log, "bad-0")
    again = start_broker(data_dir=broker.data_dir)
    with RawClient(again.port) as client:
        assert values(client, "bad") == [b"before", b"after"]


def test_a_full_disk_can_be_read_after_a_restart(
    start_broker: StartBroker, disk: FaultyDisk, error_log: ErrorLog
) -> None:
    broker = start_broker()
    with RawClient(broker.port) as client:
        create_topic(client, "bad")
        assert produced(client, "bad", b"before") == (0, 0)
    broker.stop()
    disk.broken_directory, disk.write_error = "bad", errno.ENOSPC
    broker = start_broker(disk=disk, data_dir=broker.data_dir)
    with RawClient(broker.port) as client:
        assert values(client, "bad") == [b"before"]
        assert produced(client, "bad") == (56, -1)
        disk.write_error = 0
        assert produced(client, "bad", b"after") == (0, 1)
    said_once(error_log, "bad-0")


def said_once(error_log: ErrorLog, partition: str) -> None:
    """However many writes failed, the log says it once."""
    (line,) = error_log.lines
    assert f"{partition} takes no writes for now" in line
    error_log.lines.clear()


def test_a_producer_may_repeat_a_write_that_failed(
    start_broker: StartBroker, disk: FaultyDisk, error_log: ErrorLog
) -> None:
    broker = start_broker(disk=disk)
    with RawClient(broker.port) as client:
        create_topic(client, "bad")

        def write(sequence: int) -> list[int]:
            records = batch(producer_id=7, producer_epoch=0, base_sequence=sequence)
            return produce_codes(client.call(produce("bad", records), PRODUCE_VERSION))

        assert write(0) == [0]
        disk.broken_directory, disk.write_error = "bad", errno.ENOSPC
        assert write(1) == [56]
        assert write(1) == [56]
        disk.write_error = 0
        assert write(2) == [45]
        assert write(1) == [0]
        assert write(2) == [0]
        assert end_offset(client, "bad") == 3
    said_once(error_log, "bad-0")


@pytest.mark.parametrize("acks", [-1, 1])
def test_a_sync_that_fails_takes_the_partition_offline(
    start_broker: StartBroker, disk: FaultyDisk, error_log: ErrorLog, acks: int
) -> None:
    """Nobody knows what the kernel dropped, so nothing is acked any more until a restart has looked."""
    broker = start_broker({"log.flush.on.ack": "true"}, disk=disk)
    with RawClient(broker.port) as client:
        create_topic(client, "bad")
        create_topic(client, "good")
        assert produced(client, "bad", b"before") == (0, 0)
        disk.broken_directory, disk.sync_error = "bad", errno.EIO
        assert produced(client, "bad", b"lost?") == (56, -1)
        disk.sync_error = 0
        assert produced(client, "bad", b"no", acks) == (56, -1)
        assert fetch_codes(client.call(fetch("bad"), FETCH_VERSION)) == [56]
        assert produced(client, "good") == (0, 0)
    broker.stop()
    assert len(error_log.lines) == 1
    assert "a sync failed" in error_log.lines.pop()
    again = start_broker(data_dir=broker.data_dir)
    with RawClient(again.port) as client:
        assert values(client, "bad")[0] == b"before"
        offset = end_offset(client, "bad")
        assert produced(client, "bad", b"after") == (0, offset)


def test_a_broken_log_is_answered_for_reads_too(start_broker: StartBroker, disk: FaultyDisk) -> None:
    broker = start_broker(disk=disk)
    with RawClient(broker.port) as client:
        create_topic(client, "bad")
        assert produced(client, "bad") == (0, 0)
        partition = broker.partition("bad")
        broker.on_loop(lambda: partition.log.go_offline("a test"))
        assert fetch_codes(client.call(fetch("bad"), FETCH_VERSION)) == [56]
        assert produced(client, "bad") == (56, -1)


@pytest.fixture
def small_volume(tmp_path: Path) -> Iterator[Path]:
    """A real file system of a few megabytes."""
    where = tmp_path / "volume"
    where.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={TMPFS_BYTES}", "tmpfs", str(where)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"mounting a tmpfs needs privileges: {done.stderr.strip()}")
    yield where
    subprocess.run(["umount", "--lazy", str(where)], check=True)


def fill(client: RawClient, topic: str) -> int:
    """Produce until the disk is full; the number of records that were acked."""
    acked = 0
    while True:
        code, offset = produced(client, topic, bytes(100_000))
        if code:
            assert (code, offset) == (56, -1)
            return acked
        assert offset == acked
        acked += 1
        assert acked < TMPFS_BYTES // 100_000


def test_a_volume_that_fills_up_and_is_freed(
    start_broker: StartBroker, small_volume: Path, error_log: ErrorLog
) -> None:
    ballast = small_volume / "ballast"
    ballast.write_bytes(bytes(TMPFS_BYTES // 4))
    broker = start_broker({"log.flush.on.ack": "true"}, data_dir=small_volume / "data")
    with RawClient(broker.port) as client:
        create_topic(client, "growing")
        acked = fill(client, "growing")
        assert acked > 5
        assert len(values(client, "growing")) == acked
        ballast.unlink()
        assert produced(client, "growing", b"after") == (0, acked)
        assert values(client, "growing")[acked:] == [b"after"]
    said_once(error_log, "growing-0")
    restart(start_broker, broker, "growing", acked + 1)


def test_a_full_volume_can_be_read_after_a_kill(small_volume: Path) -> None:
    broker = Broker({"log.flush.on.ack": True}, data_dir=small_volume / "data", subprocess=True)
    with broker:
        with RawClient(port_of(broker)) as client:
            create_topic(client, "t")
            for number in range(10):
                assert produced(client, "t", b"%d" % number * 500) == (0, number)
            ballast = small_volume / "ballast"
            with ballast.open("wb", buffering=0) as file, suppress(OSError):
                while True:
                    file.write(bytes(4096))
            while produced(client, "t", bytes(5000))[0] == 0:
                pass
            count = end_offset(client, "t")
        broker.kill()
        broker.start()
        with RawClient(port_of(broker)) as client:
            assert len(values(client, "t")) == count
            assert produced(client, "t", bytes(5000)) == (56, -1)
            ballast.unlink()
            assert produced(client, "t", bytes(5000)) == (0, count)


def restart(start_broker: StartBroker, broker: LiveBroker, topic: str, count: int) -> None:
    broker.stop()
    again = start_broker(data_dir=broker.data_dir)
    with RawClient(again.port) as client:
        assert len(values(client, topic)) == count
    again.stop()
