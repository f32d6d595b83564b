"""Batches that threads check: what else may happen meanwhile, and what must wait."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from oncelog.broker.base.cpu_workers import Checkpoint
from oncelog.broker.handlers import produce as handler
from oncelog.broker.replica.batch_validation import (
    COMPRESSED_BYTES_MAX,
    DECOMPRESSED_BYTES_MAX,
    PLAIN_BYTES_MAX,
    RECOMPRESSED_BYTES_MAX,
    check_in_thread,
    check_on_loop,
)
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.messages.api_versions import ApiVersionsRequest
from oncelog.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from oncelog.protocol.records.compression import Compression
from oncelog.protocol.records.record import Record
from tests.bad_input.faulty_disk import FaultyDisk
from tests.bad_input.live import LiveBroker
from tests.bad_input.raw import RawClient, wait_until
from tests.bad_input.requests import (
    PRODUCE_VERSION,
    batch,
    create_topic,
    end_offset,
    now_ms,
    produce,
    produce_codes,
    record,
)
from tests.transactions.wire_producer import NEW, OLD, TxnProducer

TOPIC, OTHER = "topic", "other"


class Gate:
    """Holds the threads that check batches until it is opened."""

    def __init__(self) -> None:
        self.held_count = 0
        self._opened = threading.Event()

    def close(self) -> None:
        self.held_count = 0
        self._opened.clear()

    def open(self) -> None:
        self._opened.set()

    def check(self, *arguments: Any) -> Any:
        checkpoint: Checkpoint = arguments[-1]
        self.held_count += 1
        while not self._opened.wait(0.001):
            checkpoint()
        return check_in_thread(*arguments)

    def wait_for(self, count: int = 1) -> None:
        wait_until(lambda: self.held_count == count, "a thread has the batch")


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate()
    gate.open()
    monkeypatch.setattr(handler, "check_in_thread", gate.check)
    yield gate
    gate.open()


@pytest.fixture
def disk() -> Iterator[FaultyDisk]:
    disk = FaultyDisk()
    yield disk
    disk.release()


@pytest.fixture
def broker(tmp_path: Path, disk: FaultyDisk, gate: Gate) -> Iterator[LiveBroker]:
    broker = LiveBroker(tmp_path, {"log.flush.on.ack": "true"}, disk)
    yield broker
    disk.release()
    gate.open()
    broker.stop()


@pytest.fixture
def client(broker: LiveBroker) -> Iterator[RawClient]:
    with RawClient(broker.port) as client:
        create_topic(client, TOPIC)
        create_topic(client, OTHER)
        yield client


def heavy(**options: Any) -> bytearray:
    """A batch of one record that is for a thread to check."""
    return batch(Record(0, now_ms(), b"key", bytes(200_000)), **{"compression": Compression.ZSTD, **options})


def base_offsets(response: Any) -> list[int]:
    return [part.base_offset for topic in response.responses for part in topic.partition_responses]


def test_others_are_served_while_a_thread_checks(broker: LiveBroker, client: RawClient, gate: Gate) -> None:
    gate.close()
    request = produce(TOPIC, heavy())
    sent = client.send(request, PRODUCE_VERSION)
    gate.wait_for()
    with RawClient(broker.port) as other:
        assert produce_codes(other.call(produce(TOPIC, batch()), PRODUCE_VERSION)) == [0]
        assert end_offset(other, TOPIC) == 1
    gate.open()
    assert base_offsets(client.read_answer(request, PRODUCE_VERSION, sent)) == [1]


def test_small_batches_do_not_overtake_large_ones(client: RawClient, gate: Gate) -> None:
    """Else the sequences of an idempotent producer would be out of order."""
    gate.close()
    kinds: list[Callable[..., bytearray]] = [heavy, batch, batch, heavy, heavy, batch]
    requests = [
        produce(TOPIC, kind(producer_id=7, producer_epoch=0, base_sequence=sequence))
        for sequence, kind in enumerate(kinds)
    ]
    sent = [client.send(request, PRODUCE_VERSION) for request in requests]
    gate.wait_for()
    gate.open()
    answers = [
        client.read_answer(request, PRODUCE_VERSION, number) for request, number in zip(requests, sent, strict=True)
    ]
    assert [produce_codes(answer) for answer in answers] == [[0]] * 6
    assert [base_offsets(answer) for answer in answers] == [[offset] for offset in range(6)]


def test_a_batch_that_fills_the_receive_buffer_is_not_overwritten(client: RawClient, gate: Gate) -> None:
    """More requests wait in the socket than the connection's memory has room for."""
    gate.close()
    values = [bytes([number]) * 300_000 for number in range(8)]
    requests = [produce(TOPIC, batch(record(value), compression=Compression.SNAPPY)) for value in values]
    sent = [client.send(request, PRODUCE_VERSION) for request in requests]
    gate.wait_for()
    time.sleep(0.05)
    gate.open()
    for request, number in zip(requests, sent, strict=True):
        assert produce_codes(client.read_answer(request, PRODUCE_VERSION, number)) == [0]


def test_the_next_request_starts_while_the_records_wait_for_the_disk(
    broker: LiveBroker, client: RawClient, disk: FaultyDisk
) -> None:
    disk.hold(TOPIC)
    first, second = produce(TOPIC, heavy()), produce(OTHER, batch())
    sent = [client.send(request, PRODUCE_VERSION) for request in (first, second)]
    other = broker.partition(OTHER)
    wait_until(lambda: other.log.end_offset == 1, "the second batch is in the log")
    disk.release()
    assert produce_codes(client.read_answer(first, PRODUCE_VERSION, sent[0])) == [0]
    assert produce_codes(client.read_answer(second, PRODUCE_VERSION, sent[1])) == [0]


def is_silent(client: RawClient) -> bool:
    client.socket.settimeout(0.2)
    try:
        return not client.socket.recv(1)
    except TimeoutError:
        return True
    finally:
        client.socket.settimeout(60)


@pytest.mark.parametrize("last", [heavy, batch])
def test_an_answer_waits_for_the_batches_that_were_still_to_be_checked(
    broker: LiveBroker, client: RawClient, disk: FaultyDisk, gate: Gate, last: Callable[[], bytearray]
) -> None:
    """What was appended before them is safe long before they are even in the log."""
    gate.close()
    request = produce(TOPIC, batch())
    request.topic_data += produce(OTHER, heavy()).topic_data + produce("third", last()).topic_data
    create_topic(client, "third")
    sent = client.send(request, PRODUCE_VERSION)
    gate.wait_for()
    first = broker.partition(TOPIC)
    wait_until(lambda: first.log.high_watermark == 1, "the first batch is safe")
    disk.hold("third")
    gate.open()
    third = broker.partition("third")
    wait_until(lambda: third.log.end_offset == 1, "the last batch is in the log")
    assert is_silent(client)
    disk.release()
    answer = client.read_answer(request, PRODUCE_VERSION, sent)
    assert produce_codes(answer) == [0, 0, 0]
    assert base_offsets(answer) == [0, 0, 0]
    assert third.log.high_watermark == 1


def test_several_batches_of_a_request_are_answered_in_their_places(client: RawClient) -> None:
    bad = heavy()
    bad[-1] ^= 1
    request = produce(TOPIC, heavy())
    for name, data in [("missing", heavy()), (OTHER, bad), ("__consumer_offsets", heavy()), ("third", heavy())]:
        request.topic_data += produce(name, data).topic_data
    create_topic(client, "third")
    answer = client.call(request, PRODUCE_VERSION)
    assert [topic.name for topic in answer.responses] == [topic.name for topic in request.topic_data]
    assert produce_codes(answer) == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.NONE,
    ]


def test_a_client_that_hangs_up_leaves_nothing_behind(broker: LiveBroker, client: RawClient, gate: Gate) -> None:
    gate.close()
    with RawClient(broker.port) as leaving:
        leaving.send(produce(TOPIC, heavy(), acks=0), PRODUCE_VERSION)
        gate.wait_for()
        leaving.send(produce(TOPIC, batch(), acks=0), PRODUCE_VERSION)
    gate.open()
    # It has asked for what it sent.
    wait_until(lambda: end_offset(client, TOPIC) == 2, "both batches are in the log")
    (listener,) = broker.app._listeners
    wait_until(lambda: broker.on_loop(lambda: listener.connection_count) == 1, "its connection is gone")
    used_bytes = broker.on_loop(lambda: listener.frame_memory.used_bytes)
    assert used_bytes <= 2 * 16 * 1024


def test_a_stop_does_not_wait_for_checks(broker: LiveBroker, client: RawClient, gate: Gate) -> None:
    threads = set(threading.enumerate())
    gate.close()
    others = [RawClient(broker.port) for _ in range(3)]
    for other in (client, *others):
        other.send(produce(TOPIC, heavy()), PRODUCE_VERSION)
    gate.wait_for()
    partition = broker.partition(TOPIC)
    broker.stop()
    assert partition.log.end_offset == 0
    for other in others:
        assert other.read_frame() is None
        other.socket.close()
    assert set(threading.enumerate()) <= threads


def test_a_topic_that_is_deleted_meanwhile(broker: LiveBroker, client: RawClient, gate: Gate) -> None:
    gate.close()
    request = produce(TOPIC, heavy())
    sent = client.send(request, PRODUCE_VERSION)
    gate.wait_for()
    with RawClient(broker.port) as other:
        deletion = DeleteTopicsRequest(topics=[DeleteTopicState(name=TOPIC)], timeout_ms=5000)
        assert other.call(deletion, 6).responses[0].error_code == 0
    gate.open()
    answer = client.read_answer(request, PRODUCE_VERSION, sent)
    assert produce_codes(answer) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


@pytest.mark.parametrize("is_good", [True, False])
def test_without_acks(broker: LiveBroker, client: RawClient, is_good: bool) -> None:
    data = heavy()
    if not is_good:
        data[-1] ^= 1
    with RawClient(broker.port) as silent:
        silent.send(produce(TOPIC, data, acks=0), PRODUCE_VERSION)
        if is_good:
            silent.call(ApiVersionsRequest(), 0)
        else:
            silent.assert_closed()
    assert broker.partition(TOPIC).log.end_offset == is_good


@pytest.mark.parametrize("acks", [1, -1])
def test_the_offset_and_the_records_are_those_of_the_batch(broker: LiveBroker, client: RawClient, acks: int) -> None:
    data = heavy()
    client.call(produce(TOPIC, batch(), acks=acks), PRODUCE_VERSION)
    answer = client.call(produce(TOPIC, data, acks=acks), PRODUCE_VERSION)
    assert base_offsets(answer) == [1]
    log = broker.partition(TOPIC).log
    stored = broker.on_loop(lambda: log.read(1, size_bytes_max=1_000_000, end_offset=2).records)
    assert stored[16:] == data[16:]


@pytest.mark.parametrize("generation", [OLD, NEW])
def test_a_transaction_that_begins_with_a_large_batch(
    broker: LiveBroker, client: RawClient, gate: Gate, generation: int
) -> None:
    producer = TxnProducer(client, generation)
    assert producer.send(TOPIC, Record(0, now_ms(), b"key", bytes(3_000_000))) == ErrorCode.MESSAGE_TOO_LARGE
    large = Record(0, now_ms(), b"key", bytes(300_000))
    for topic in (TOPIC, OTHER):
        data = producer.batch(topic, large, compression=Compression.GZIP)
        if generation == OLD:
            producer.add(topic)
        assert producer.produce(topic, data) == 0
        producer.sequences[topic] = 1
    assert gate.held_count == 2 + 1
    assert producer.send(TOPIC) == 0
    assert producer.end() == 0
    assert broker.partition(TOPIC).log.high_watermark == 3


def test_a_request_with_very_many_batches_lets_others_go_on(
    broker: LiveBroker, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its batches are in the log, and its answers in the response, in the order of the request."""
    create_topic(client, "wide", partitions=50)
    monkeypatch.setattr(handler, "_SLICE_SECONDS", -1.0)
    request = produce("wide")
    for index in range(50):
        request.topic_data[0].partition_data += produce("wide", batch(), index=index).topic_data[0].partition_data
    following = produce("wide", batch(), index=49)
    sent = [client.send(each, PRODUCE_VERSION) for each in (request, following)]
    answer = client.read_answer(request, PRODUCE_VERSION, sent[0])
    assert [part.index for part in answer.responses[0].partition_responses] == list(range(50))
    assert produce_codes(answer) == [0] * 50
    assert base_offsets(client.read_answer(following, PRODUCE_VERSION, sent[1])) == [1]


def config_of(broker: LiveBroker, topic: str) -> Any:
    return broker.partition(topic).log.config


def is_for_thread(broker: LiveBroker, topic: str, data: bytearray) -> bool:
    return check_on_loop(memoryview(data), config_of(broker, topic), True, now_ms()) is None


def test_what_is_for_the_loop_and_what_for_a_thread(broker: LiveBroker, client: RawClient) -> None:
    create_topic(client, "gzip", compression_type="gzip")
    create_topic(client, "large", max_message_bytes="10000000")
    value = bytes(range(256)) * (PLAIN_BYTES_MAX // 256)

    def data(size: int, compression: Compression = Compression.NONE) -> bytearray:
        return batch(record(value[:size]), compression=compression)

    assert not is_for_thread(broker, "large", data(PLAIN_BYTES_MAX - 200))
    assert is_for_thread(broker, "large", data(PLAIN_BYTES_MAX))
    for codec in (Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD):
        assert not is_for_thread(broker, TOPIC, data(DECOMPRESSED_BYTES_MAX - 200, codec))
        assert is_for_thread(broker, TOPIC, data(DECOMPRESSED_BYTES_MAX, codec))
    assert not is_for_thread(broker, "gzip", data(RECOMPRESSED_BYTES_MAX - 200))
    assert is_for_thread(broker, "gzip", data(RECOMPRESSED_BYTES_MAX))
    assert not is_for_thread(broker, "gzip", data(RECOMPRESSED_BYTES_MAX - 200, Compression.LZ4))
    assert is_for_thread(broker, "gzip", data(RECOMPRESSED_BYTES_MAX, Compression.LZ4))
    assert not is_for_thread(broker, "gzip", data(DECOMPRESSED_BYTES_MAX - 200, Compression.GZIP))
    value = random.Random(1).randbytes(COMPRESSED_BYTES_MAX)
    assert not is_for_thread(broker, TOPIC, data(COMPRESSED_BYTES_MAX - 200, Compression.GZIP))
    assert is_for_thread(broker, TOPIC, data(COMPRESSED_BYTES_MAX, Compression.GZIP))
