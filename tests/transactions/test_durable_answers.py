"""What an answer promises is on the disk before the answer is sent.

A sync is held until the test lets it go. The broker has served somebody else meanwhile, so whatever it would have said
too early has arrived.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oncelog.protocol.messages.api_versions import ApiVersionsRequest
from oncelog.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from oncelog.protocol.messages.init_producer_id import InitProducerIdRequest
from oncelog.protocol.messages.produce import ProduceRequest
from oncelog.protocol.records.batch import iter_headers
from tests.bad_input.faulty_disk import FaultyDisk
from tests.bad_input.live import LiveBroker
from tests.bad_input.raw import RawClient
from tests.bad_input.requests import batch, create_topic, fetch, produce, produce_codes, record
from tests.transactions.wire_producer import END, INIT, NEW, OLD, PRODUCE, TxnProducer

FETCH = 12
READ_COMMITTED = 1
TOPIC = "topic"
TRANSACTION_LOG = "__transaction_state"

generations = pytest.mark.parametrize("generation", [OLD, NEW], ids=["v1", "v2"])


class World:
    def __init__(self, data_dir: Path) -> None:
        self.disk = FaultyDisk()
        settings = {"log.flush.on.ack": "true", "transaction.state.log.num.partitions": "1"}
        self.broker = LiveBroker(data_dir, settings, self.disk)
        self.clients: list[RawClient] = []
        self.client = self.connect()
        create_topic(self.client, TOPIC)

    def connect(self) -> RawClient:
        client = RawClient(self.broker.port)
        self.clients.append(client)
        return client

    def close(self) -> None:
        self.disk.release()
        for client in self.clients:
            client.socket.close()
        self.broker.stop()

    def wait_until_held(self, *waiting: RawClient) -> None:
        """A sync is under way, and nobody has had an answer."""
        assert self.disk.is_holding.wait(30)
        for _ in range(3):
            with RawClient(self.broker.port) as other:
                assert other.call(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3).api_keys
        for client in waiting:
            client.socket.setblocking(False)
            with pytest.raises(BlockingIOError):
                client.socket.recv(1)
            client.socket.settimeout(30)

    def end_offset(self) -> int:
        partition = self.broker.partition(TOPIC)
        return self.broker.on_loop(lambda: partition.log.end_offset)

    def visible_values(self, **options: Any) -> list[int]:
        """Base offsets of the batches that a new reader gets."""
        with RawClient(self.broker.port) as reader:
            response = reader.call(fetch(TOPIC, 0, max_wait_ms=0, **options), FETCH)
        (data,) = response.responses[0].partitions
        return [header.base_offset for _, header in iter_headers(memoryview(data.records))]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.close()


def unhurried(request: ProduceRequest) -> ProduceRequest:
    request.timeout_ms = 600_000
    return request


def test_an_ack_waits_for_the_sync_of_its_records(world: World) -> None:
    world.disk.hold(TOPIC)
    request = unhurried(produce(TOPIC, batch(record(b"one"))))
    sent = world.client.send(request, PRODUCE[NEW])
    world.wait_until_held(world.client)
    assert world.visible_values() == [], "nor may a reader see them"
    world.disk.release()
    assert produce_codes(world.client.read_answer(request, PRODUCE[NEW], sent)) == [0]
    assert world.visible_values() == [0]


def test_the_ack_of_a_retry_waits_for_the_sync_of_the_first_try(world: World) -> None:
    """The retry finds its batch in the log. That does not make the batch durable."""
    started = world.client.call(InitProducerIdRequest(transactional_id=None), INIT)
    identity = {"producer_id": started.producer_id, "producer_epoch": started.producer_epoch, "base_sequence": 0}
    request = unhurried(produce(TOPIC, batch(record(b"one"), **identity)))
    world.disk.hold(TOPIC)
    sent = world.client.send(request, PRODUCE[NEW])
    world.wait_until_held(world.client)
    retrying = world.connect()
    sent_again = retrying.send(request, PRODUCE[NEW])
    world.wait_until_held(world.client, retrying)
    world.disk.release()
    for client, number in ((world.client, sent), (retrying, sent_again)):
        (answer,) = client.read_answer(request, PRODUCE[NEW], number).responses[0].partition_responses
        assert (answer.error_code, answer.base_offset) == (0, 0)
    assert world.end_offset() == 1


def test_the_ack_of_a_retry_fails_if_the_sync_of_the_first_try_does(world: World) -> None:
    started = world.client.call(InitProducerIdRequest(transactional_id=None), INIT)
    identity = {"producer_id": started.producer_id, "producer_epoch": started.producer_epoch, "base_sequence": 0}
    request = unhurried(produce(TOPIC, batch(record(b"one"), **identity)))
    world.disk.broken_directory, world.disk.sync_error = TOPIC, 5
    world.disk.hold(TOPIC)
    sent = world.client.send(request, PRODUCE[NEW])
    world.wait_until_held(world.client)
    retrying = world.connect()
    sent_again = retrying.send(request, PRODUCE[NEW])
    world.wait_until_held(world.client, retrying)
    world.disk.release()
    assert produce_codes(world.client.read_answer(request, PRODUCE[NEW], sent)) == [56]
    assert produce_codes(retrying.read_answer(request, PRODUCE[NEW], sent_again)) == [56]
    world.disk.sync_error = 0


@generations
def test_a_batch_waits_for_its_transaction_to_be_durable(world: World, generation: int) -> None:
    """A batch of a transaction whose record a power cut takes back would never be ended by anybody."""
    producer = TxnProducer(world.client, generation)
    adding = world.connect()
    world.disk.hold(TRANSACTION_LOG)
    if generation == OLD:
        adding.send(producer.add_request(TOPIC), 3)
        world.wait_until_held(adding)
    request = unhurried(produce(TOPIC, producer.batch(TOPIC), transactional_id=producer.name))
    sent = world.client.send(request, PRODUCE[generation])
    world.wait_until_held(world.client)
    assert world.end_offset() == 0
    world.disk.release()
    assert produce_codes(world.client.read_answer(request, PRODUCE[generation], sent)) == [0]
    assert world.end_offset() == 1


@generations
@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_the_end_of_a_transaction_waits_for_its_decision(world: World, generation: int, commit: bool) -> None:
    producer = TxnProducer(world.client, generation)
    assert producer.send(TOPIC) == 0
    world.disk.hold(TRANSACTION_LOG)
    request = producer.end_request(commit)
    sent = world.client.send(request, END[generation])
    world.wait_until_held(world.client)
    assert world.end_offset() == 1, "no marker is written for a decision that may be lost"
    world.disk.release()
    assert world.client.read_answer(request, END[generation], sent).error_code == 0


@generations
@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_the_end_of_a_transaction_waits_for_its_markers(world: World, generation: int, commit: bool) -> None:
    producer = TxnProducer(world.client, generation)
    assert producer.send(TOPIC) == 0
    world.disk.hold(TOPIC)
    request = producer.end_request(commit)
    sent = world.client.send(request, END[generation])
    world.wait_until_held(world.client)
    assert world.visible_values(isolation_level=READ_COMMITTED) == [], "the marker is not durable"
    world.disk.release()
    assert world.client.read_answer(request, END[generation], sent).error_code == 0
    assert world.visible_values(isolation_level=READ_COMMITTED) == [0, 1]


def test_deleted_records_are_gone_for_good_before_the_answer(world: World, tmp_path: Path) -> None:
    for _ in range(3):
        assert produce_codes(world.client.call(produce(TOPIC, batch(record(b"x"))), PRODUCE[NEW])) == [0]
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=TOPIC, partitions=[DeleteRecordsPartition(partition_index=0, offset=2)])],
        timeout_ms=1000,
    )
    (answered,) = world.client.call(request, 2).topics[0].partitions
    assert (answered.error_code, answered.low_watermark) == (0, 2)
    # As a kill would leave it: nothing else of the broker has run.
    assert f"{TOPIC} 0 2" in (tmp_path / "log-start-offset-checkpoint").read_text().splitlines()


@generations
def test_the_list_of_aborted_transactions_reaches_to_the_last_record_of_a_fetch(world: World, generation: int) -> None:
    """A reader that gets the aborted record, but not the entry for it, would take it for committed."""
    producer = TxnProducer(world.client, generation)
    aborted_at = []
    for commit in (True, False, True, False):
        aborted_at += [] if commit else [world.end_offset()]
        assert producer.send(TOPIC) == 0
        assert producer.end(commit) == 0
    for offset in range(world.end_offset()):
        options = {"isolation_level": READ_COMMITTED, "partition_max_bytes": 1, "max_bytes": 1, "max_wait_ms": 0}
        (data,) = world.client.call(fetch(TOPIC, offset, **options), FETCH).responses[0].partitions
        (header,) = (header for _, header in iter_headers(memoryview(data.records)))
        expected = [offset] if offset in aborted_at else []
        # The marker of a transaction still belongs to it.
        expected += [first for first in aborted_at if offset == first + 1]
        assert header.base_offset == offset
        assert [aborted.first_offset for aborted in data.aborted_transactions] == expected
