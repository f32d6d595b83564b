"""A device that fails a write, a broker that is started again, and then a power cut: nothing acknowledged is lost.

After a failed sync the kernel keeps the records in the page cache as if they were on the device. See
`oncelog/broker/log/page_cache.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.messages.init_producer_id import InitProducerIdRequest
from oncelog.testing import Broker
from tests.bad_input.raw import RawClient
from tests.bad_input.requests import (
    CREATE_TOPICS_VERSION,
    PRODUCE_VERSION,
    batch,
    create_topic,
    create_topics,
    end_offset,
    produce,
    record,
)
from tests.bad_input.test_disk import values
from tests.faults.loop_disk import LoopDisk, loop_disk, why_not
from tests.transactions.wire_producer import port_of

TOPIC = "t"
SMALL, LARGE = 3000, 60_000
"""Small batches are written into room that the broker has made for them, large ones into blocks that are new."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[LoopDisk]:
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    with loop_disk(tmp_path) as disk:
        yield disk


class IdempotentProducer:
    """Sends a batch again and again until it is acknowledged, as clients do."""

    def __init__(self, client: RawClient) -> None:
        answer = client.call(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 4)
        assert answer.error_code == 0
        self._producer_id = answer.producer_id
        self.acknowledged: dict[int, bytes] = {}
        """Values by their offsets."""

    def send(self, client: RawClient, value: bytes) -> int:
        records = batch(
            record(value), producer_id=self._producer_id, producer_epoch=0, base_sequence=len(self.acknowledged)
        )
        response = client.call(produce(TOPIC, records), PRODUCE_VERSION)
        (answer,) = response.responses[0].partition_responses
        if answer.error_code == 0:
            self.acknowledged[answer.base_offset] = value
        return int(answer.error_code)


def value_of(number: int, size_bytes: int) -> bytes:
    return b"%06d" % number * (size_bytes // 6)


def start_on(path: Path) -> Broker:
    return Broker({"log.flush.on.ack": True}, data_dir=path / "data", subprocess=True)


def fail_a_write(disk: LoopDisk, broker: Broker, size_bytes: int) -> IdempotentProducer:
    with RawClient(port_of(broker)) as client:
        create_topic(client, TOPIC)
        producer = IdempotentProducer(client)
        for number in range(8):
            assert producer.send(client, value_of(number, size_bytes)) == 0
        log = disk.path / "data" / f"{TOPIC}-0" / "00000000000000000000.log"
        disk.fail_writes_behind(log, sum(len(value) for value in producer.acknowledged.values()) + BATCH_BYTES * 8)
        # More than the block that the last acknowledged record shares with the next one.
        assert producer.send(client, value_of(8, max(size_bytes, 9000))) == ErrorCode.KAFKA_STORAGE_ERROR
    return producer


BATCH_BYTES = 100
"""About what a batch takes besides its value."""


@pytest.mark.parametrize("kill", [True, False], ids=["kill", "stop"])
@pytest.mark.parametrize("size_bytes", [SMALL, LARGE], ids=["room", "new blocks"])
def test_what_is_acknowledged_after_a_restart_survives_a_power_cut(
    disk: LoopDisk, size_bytes: int, kill: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    broker = start_on(disk.path)
    with broker:
        producer = fail_a_write(disk, broker, size_bytes)
        disk.heal()
        if kill:
            broker.kill()
        broker.restart()
        assert kill or "the next start has to recover the logs" in capfd.readouterr().err
        with RawClient(port_of(broker)) as client:
            for number in range(8, 11):
                assert producer.send(client, value_of(number, max(size_bytes, 9000))) == 0
        path = disk.cut_power()
    with start_on(path) as broker, RawClient(port_of(broker)) as client:
        assert values(client, TOPIC) == [producer.acknowledged[offset] for offset in range(11)]


def test_a_partition_stays_offline_while_its_device_fails(disk: LoopDisk) -> None:
    broker = start_on(disk.path)
    with broker:
        producer = fail_a_write(disk, broker, LARGE)
        broker.kill()
        broker.start()
        with RawClient(port_of(broker)) as client:
            assert producer.send(client, value_of(8, LARGE)) == ErrorCode.KAFKA_STORAGE_ERROR
        disk.heal()
        broker.restart()
        with RawClient(port_of(broker)) as client:
            assert producer.send(client, value_of(8, LARGE)) == 0
        path = disk.cut_power()
    with start_on(path) as broker, RawClient(port_of(broker)) as client:
        assert values(client, TOPIC) == [producer.acknowledged[offset] for offset in range(9)]


def test_metadata_after_a_failed_sync(disk: LoopDisk, capfd: pytest.CaptureFixture[str]) -> None:
    """SQLite would read what it could not sync from the page cache, and append to it."""
    broker = start_on(disk.path)
    with broker:
        with RawClient(port_of(broker)) as client:
            for number in range(5):
                create_topic(client, f"before-{number}")
            log = disk.path / "data" / "metadata.sqlite-wal"
            disk.fail_writes_behind(log, log.stat().st_size)
            (answer,) = client.call(create_topics("failed", partitions=100), CREATE_TOPICS_VERSION).topics
            assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        # It does not go on with metadata that it cannot change.
        broker.wait_for_crash()
        assert "the broker stops: it lost its metadata" in capfd.readouterr().err
        disk.heal()
        broker.start()
        with RawClient(port_of(broker)) as client:
            for number in range(5):
                create_topic(client, f"after-{number}")
        path = disk.cut_power()
    with start_on(path) as broker, RawClient(port_of(broker)) as client:
        for number in range(5):
            assert end_offset(client, f"before-{number}") == end_offset(client, f"after-{number}") == 0
