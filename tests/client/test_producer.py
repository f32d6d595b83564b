from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from oncelog.client.admin import Admin
from oncelog.client.cluster import Cluster
from oncelog.client.consumer import Consumer, Start
from oncelog.client.errors import UnknownTopic
from oncelog.client.partitioner import partition_for_key
from oncelog.client.producer import Producer, ProducerIdentity
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from oncelog.protocol.records.batch import BatchHeader, read_header
from oncelog.protocol.records.compression import Compression
from tests.client.fake_broker import TOPIC, FakeBroker


def read_all(cluster: Cluster, topic: str) -> list[tuple[int, bytes | None, bytes | None]]:
    return [
        (consumed.partition, consumed.record.key, consumed.record.value)
        for consumed in Consumer(cluster, topic).records(follow=False)
    ]


@pytest.mark.parametrize("compression", Compression)
def test_records_arrive_whatever_the_codec(cluster: Cluster, topic: str, compression: Compression) -> None:
    headers = [("name", b"value"), ("name", None)]
    with Producer(cluster, compression=compression) as producer:
        for number in range(100):
            producer.produce(topic, b"value %d" % number, key=b"key", headers=headers, timestamp_ms=number)
    consumed = list(Consumer(cluster, topic).records(follow=False))
    assert [each.record.value for each in consumed] == [b"value %d" % number for number in range(100)]
    assert {each.partition for each in consumed} == {partition_for_key(b"key", 3)}
    assert [each.record.timestamp for each in consumed] == list(range(100))
    assert list(consumed[0].record.headers) == headers
    assert producer.delivered == {(topic, partition_for_key(b"key", 3)): (0, 100, 100)}


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_acks(cluster: Cluster, topic: str, acks: int) -> None:
    # Without an answer nobody tells that a new topic's leader is not ready, so it is asked for something first.
    with Producer(cluster) as first:
        first.produce(topic, b"first", partition=0)
    with Producer(cluster, acks=acks) as producer:
        producer.produce(topic, b"x", partition=0)
    assert producer.delivered_count == 1
    consumed = Consumer(cluster, topic, start=Start.offset(1)).records(follow=True)
    assert next(consumed).record.value == b"x"


def test_records_without_a_key_fill_one_batch_and_then_another_partition(cluster: Cluster, topic: str) -> None:
    with Producer(cluster, batch_size_bytes=1000) as producer:
        for _ in range(100):
            producer.produce(topic, bytes(50))
    assert producer.delivered_count == 100
    assert len(producer.delivered) > 1


def test_a_null_and_an_empty_value(cluster: Cluster, topic: str) -> None:
    with Producer(cluster) as producer:
        producer.produce(topic, None, key=b"", partition=0)
        producer.produce(topic, b"", partition=0)
    assert read_all(cluster, topic) == [(0, b"", None), (0, None, b"")]


def test_an_idempotent_producer_goes_on_across_flushes(cluster: Cluster, topic: str) -> None:
    producer = Producer(cluster, idempotent=True)
    for number in range(3):
        producer.produce(topic, b"%d" % number, partition=1)
        producer.produce(topic, b"%d" % number, partition=1)
        producer.flush()
    assert producer.next_sequences == {(topic, 1): 6}
    assert producer.delivered[topic, 1] == (0, 6, 6)


def test_an_explicit_identity_and_sequence_deduplicate_across_producers(cluster: Cluster, topic: str) -> None:
    first = Producer(cluster, idempotent=True)
    first.produce(topic, b"once", partition=0)
    first.flush()
    assert first.identity is not None
    for _ in range(2):
        again = Producer(cluster, identity=first.identity, next_sequences={(topic, 0): 1})
        again.produce(topic, b"twice", partition=0, timestamp_ms=1)
        again.flush()
    assert [value for _, _, value in read_all(cluster, topic)] == [b"once", b"twice"]


def test_a_sequence_out_of_order_is_told(cluster: Cluster, topic: str) -> None:
    first = Producer(cluster, idempotent=True)
    first.produce(topic, b"x", partition=0)
    first.flush()
    wrong = Producer(cluster, identity=first.identity, next_sequences={(topic, 0): 7})
    wrong.produce(topic, b"x", partition=0)
    with pytest.raises(KafkaError) as caught:
        wrong.flush()
    assert caught.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.fixture
def narrow_topic(admin: Admin, new_name: Callable[[], str]) -> str:
    """A topic that takes batches of at most 1,000 bytes."""
    name = new_name()
    admin.create_topic(name, partitions=3, configs={"max.message.bytes": "1000"})
    return name


def test_a_record_that_is_too_large_is_told_with_its_place(cluster: Cluster, narrow_topic: str) -> None:
    producer = Producer(cluster)
    producer.produce(narrow_topic, bytes(2000), partition=2)
    with pytest.raises(KafkaError, match=f"MESSAGE_TOO_LARGE: {narrow_topic}-2"):
        producer.flush()


def test_a_batch_that_is_too_large_is_split_in_order(cluster: Cluster, narrow_topic: str) -> None:
    with Producer(cluster, idempotent=True) as producer:
        for number in range(50):
            producer.produce(narrow_topic, b"%050d" % number, partition=0)
    assert [int(value or b"") for _, _, value in read_all(cluster, narrow_topic)] == list(range(50))


def test_a_partition_that_does_not_exist(cluster: Cluster, topic: str) -> None:
    producer = Producer(cluster)
    producer.produce(topic, b"x", partition=9)
    with pytest.raises(UnknownTopic, match="partition 9 does not exist"):
        producer.flush()


def test_a_topic_may_be_created_by_producing(cluster: Cluster, new_name: Callable[[], str]) -> None:
    name = new_name()
    with Producer(cluster) as producer:
        producer.produce(name, b"x")
    assert [value for _, _, value in read_all(cluster, name)] == [b"x"]


def test_leaving_with_an_exception_sends_nothing(cluster: Cluster, topic: str) -> None:
    producer = Producer(cluster)
    producer.produce(topic, b"x")
    with pytest.raises(ZeroDivisionError), producer:
        raise ZeroDivisionError
    assert producer.delivered_count == 0
    assert read_all(cluster, topic) == []


def test_settings_that_contradict_each_other(cluster: Cluster) -> None:
    with pytest.raises(ValueError, match="acks=all"):
        Producer(cluster, acks=1, idempotent=True)
    with pytest.raises(ValueError, match="producer id"):
        Producer(cluster, transactional_id="x")


# -- against a broker that fails -----------------------------------------------------------------------------


class Failing:
    """Answers Produce as told, one after the other, and then with success."""

    def __init__(self, *answers: ErrorCode | None) -> None:
        self.answers = list(answers)
        self.produced: list[ProduceRequest] = []

    def __call__(self, request: Any) -> Any:
        if request.API_KEY != ApiKey.PRODUCE:
            return NotImplemented
        # The records are a view of a frame that the fake broker does not keep.
        request.topic_data[0].partition_data[0].records = bytes(request.topic_data[0].partition_data[0].records)
        self.produced.append(request)
        code = self.answers.pop(0) if self.answers else ErrorCode.NONE
        if code is None:
            return None
        partition = PartitionProduceResponse(index=0, error_code=code, base_offset=5)
        return ProduceResponse(responses=[TopicProduceResponse(name=TOPIC, partition_responses=[partition])])

    def headers(self) -> list[BatchHeader]:
        return [read_header(bytes(request.topic_data[0].partition_data[0].records or b"")) for request in self.produced]


IDENTITY = ProducerIdentity(7, 2)


def test_a_batch_is_sent_again_unchanged_after_errors_that_pass() -> None:
    failing = Failing(ErrorCode.NOT_LEADER_OR_FOLLOWER, None, ErrorCode.NOT_ENOUGH_REPLICAS)
    with (
        FakeBroker(failing) as broker,
        Cluster(str(broker.address)) as cluster,
        Producer(cluster, identity=IDENTITY) as producer,
    ):
        producer.produce(TOPIC, b"x", key=b"k")
    headers = failing.headers()
    assert len(headers) == 4
    assert len(set(headers)) == 1
    assert (headers[0].producer_id, headers[0].producer_epoch, headers[0].base_sequence) == (7, 2, 0)
    assert producer.delivered == {(TOPIC, 0): (5, 6, 1)}


def test_a_duplicate_counts_as_delivered() -> None:
    failing = Failing(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    with (
        FakeBroker(failing) as broker,
        Cluster(str(broker.address)) as cluster,
        Producer(cluster, identity=IDENTITY) as producer,
    ):
        producer.produce(TOPIC, b"x")
    assert producer.delivered_count == 1


def test_patience_ends() -> None:
    failing = Failing(*[ErrorCode.NOT_ENOUGH_REPLICAS] * 1000)
    with FakeBroker(failing) as broker, Cluster(str(broker.address), timeout_ms=100) as cluster:
        producer = Producer(cluster)
        producer.produce(TOPIC, b"x")
        with pytest.raises(KafkaError, match="NOT_ENOUGH_REPLICAS"):
            producer.flush()


def test_batches_of_a_transaction_say_so() -> None:
    failing = Failing()
    with (
        FakeBroker(failing) as broker,
        Cluster(str(broker.address)) as cluster,
        Producer(cluster, identity=IDENTITY, transactional_id="mine") as producer,
    ):
        producer.produce(TOPIC, b"x")
    assert failing.produced[0].transactional_id == "mine"
    assert failing.headers()[0].is_transactional
