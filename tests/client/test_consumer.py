from __future__ import annotations

import threading

import pytest

from oncelog.client.cluster import Cluster
from oncelog.client.consumer import Consumer, Start
from oncelog.client.errors import UnknownTopic
from oncelog.client.offsets import Isolation
from oncelog.client.producer import Producer
from oncelog.protocol.messages.fetch import AbortedTransaction, PartitionData
from oncelog.protocol.records.batch import TimestampType, build_batch
from oncelog.protocol.records.control import ControlType, EndTxnMarker, build_marker_batch
from oncelog.protocol.records.record import Record


@pytest.fixture
def filled(cluster: Cluster, topic: str) -> str:
    """Ten records in each of two partitions, with timestamps 1000, 1001, ...; the third is empty."""
    with Producer(cluster) as producer:
        for number in range(10):
            for partition in (0, 1):
                producer.produce(topic, b"%d" % number, partition=partition, timestamp_ms=1000 + number)
    return topic


def offsets(consumer: Consumer) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {partition: [] for partition in consumer.partitions}
    for consumed in consumer.records(follow=False):
        found[consumed.partition].append(consumed.record.offset)
    return found


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (Start.earliest(), range(10)),
        (Start.latest(), []),
        (Start.offset(7), range(7, 10)),
        (Start.offset(10), []),
        (Start.offset(1_000_000), []),
        (Start.tail(2), [8, 9]),
        (Start.tail(100), range(10)),
        (Start.timestamp(1004), range(4, 10)),
        (Start.timestamp(5000), []),
    ],
)
def test_where_to_begin(cluster: Cluster, filled: str, start: Start, expected: list[int]) -> None:
    assert offsets(Consumer(cluster, filled, start=start)) == {0: list(expected), 1: list(expected), 2: []}


def test_only_some_partitions(cluster: Cluster, filled: str) -> None:
    assert offsets(Consumer(cluster, filled, partitions=[1])) == {1: list(range(10))}


def test_a_partition_that_does_not_exist(cluster: Cluster, filled: str) -> None:
    with pytest.raises(UnknownTopic, match="partition 5 does not exist"):
        Consumer(cluster, filled, partitions=[5])


def test_the_end_is_where_it_was_at_the_start(cluster: Cluster, filled: str) -> None:
    consumer = Consumer(cluster, filled)
    with Producer(cluster) as producer:
        producer.produce(filled, b"late", partition=0)
    assert offsets(consumer) == {0: list(range(10)), 1: list(range(10)), 2: []}


def test_following_sees_what_is_written_later(bootstrap_servers: str, cluster: Cluster, filled: str) -> None:
    consumer = Consumer(cluster, filled, start=Start.latest())

    def write() -> None:
        with Cluster(bootstrap_servers) as other, Producer(other) as producer:
            producer.produce(filled, b"late", partition=2)

    writer = threading.Thread(target=write)
    writer.start()
    consumed = next(consumer.records(follow=True))
    writer.join()
    assert (consumed.partition, consumed.record.value) == (2, b"late")
    assert consumed.timestamp_type is TimestampType.CREATE_TIME


def test_an_offset_beyond_the_end_is_reached_by_following(cluster: Cluster, filled: str) -> None:
    consumer = Consumer(cluster, filled, partitions=[0], start=Start.offset(11))
    with Producer(cluster) as producer:
        producer.produce(filled, b"ten", partition=0)
        producer.produce(filled, b"eleven", partition=0)
    assert next(consumer.records(follow=True)).record.value == b"eleven"


def test_large_records(cluster: Cluster, topic: str) -> None:
    with Producer(cluster) as producer:
        for size in (1, 900_000, 3):
            producer.produce(topic, bytes(size), partition=0)
    values = [consumed.record.value or b"" for consumed in Consumer(cluster, topic).records(follow=False)]
    assert [len(value) for value in values] == [1, 900_000, 3]


# -- transactions --------------------------------------------------------------------------------------------


def data_batch(offset: int, producer_id: int, *values: bytes) -> bytes:
    records = [Record(0, 0, None, value) for value in values]
    return bytes(
        build_batch(
            records,
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            transactional=producer_id >= 0,
        )
    )


def marker(offset: int, producer_id: int, kind: ControlType) -> bytes:
    return bytes(
        build_marker_batch(
            EndTxnMarker(kind, 0), producer_id=producer_id, producer_epoch=0, timestamp=0, base_offset=offset
        )
    )


INTERLEAVED = [
    data_batch(0, 1, b"a0", b"a1"),
    data_batch(2, 2, b"b2"),
    data_batch(3, -1, b"plain"),
    marker(4, 1, ControlType.ABORT),
    data_batch(5, 1, b"c5"),
    marker(6, 2, ControlType.COMMIT),
    marker(7, 1, ControlType.COMMIT),
    data_batch(8, 1, b"d8"),
    marker(9, 1, ControlType.ABORT),
]


def visible(cluster: Cluster, topic: str, aborted: list[AbortedTransaction] | None) -> list[bytes | None]:
    consumer = Consumer(cluster, topic, partitions=[0], isolation=Isolation.READ_COMMITTED)
    data = PartitionData(partition_index=0, aborted_transactions=aborted, records=b"".join(INTERLEAVED))
    values = [consumed.record.value for consumed in consumer._records([data], follow=True)]
    assert consumer.positions[0] == 10
    return values


def test_aborted_records_are_left_out(cluster: Cluster, topic: str) -> None:
    aborted = [
        AbortedTransaction(producer_id=1, first_offset=8),
        AbortedTransaction(producer_id=1, first_offset=0),
    ]
    assert visible(cluster, topic, aborted) == [b"b2", b"plain", b"c5"]


def test_without_a_list_of_aborted_transactions_all_data_is_seen(cluster: Cluster, topic: str) -> None:
    assert visible(cluster, topic, None) == [b"a0", b"a1", b"b2", b"plain", b"c5", b"d8"]
