"""The stock connector reads from Oncelog unchanged: streams and batches, by offset, by time, by pattern."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from oncelog.client.admin import Admin
from oncelog.client.cluster import Cluster
from oncelog.client.producer import Producer
from oncelog.protocol.errors import KafkaError
from oncelog.spark.cluster import SinkCluster
from oncelog.spark.options import SinkOptions
from oncelog.spark.transaction import Transactions

pytestmark = [
    pytest.mark.spark,
    pytest.mark.usefixtures("connector"),
    pytest.mark.timeout(300),
    # PySpark leaves the sockets of its results to the collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

NewTopic = Callable[..., str]
T0 = 1_700_000_000_000


@pytest.fixture
def servers(oncelog_servers: str) -> str:
    return oncelog_servers


@pytest.fixture
def topic(servers: str, new_topic: NewTopic) -> str:
    """Two partitions with offsets 0-49, one record each second of a time long ago, which retention must not mind."""
    name = new_topic(servers, 2, retention_ms="-1")
    with Cluster(servers) as cluster, Producer(cluster) as producer:
        for number in range(100):
            producer.produce(name, b"%d" % number, partition=number % 2, timestamp_ms=T0 + number * 1000)
    return name


def batch(spark: Any, servers: str, **options: Any) -> list[int]:
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", servers)
    rows = reader.options(**options).load().selectExpr("CAST(CAST(value AS STRING) AS INT) AS n").collect()
    return sorted(row["n"] for row in rows)


def stream(spark: Any, servers: str, checkpoint: str, **options: Any) -> list[int]:
    """Runs a query over what is there, and gives what its sink in memory has."""
    name = f"q{uuid.uuid4().hex}"
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
    rows = reader.options(**options).load().selectExpr("CAST(CAST(value AS STRING) AS INT) AS n")
    collected: list[int] = []

    def collect(frame: Any, _: int) -> None:
        collected.extend(row["n"] for row in frame.collect())

    writer = rows.writeStream.foreachBatch(collect).option("checkpointLocation", checkpoint).queryName(name)
    assert writer.trigger(availableNow=True).start().awaitTermination(200)
    return sorted(collected)


def test_by_offset(spark: Any, servers: str, topic: str) -> None:
    starts, ends = json.dumps({topic: {"0": 10, "1": -2}}), json.dumps({topic: {"0": 12, "1": 1}})
    assert batch(spark, servers, subscribe=topic, startingOffsets=starts, endingOffsets=ends) == [1, 20, 22]
    assert batch(spark, servers, subscribe=topic) == list(range(100))
    assigned = json.dumps({topic: [1]})
    assert batch(spark, servers, assign=assigned) == list(range(1, 100, 2))


def test_by_time(spark: Any, servers: str, topic: str) -> None:
    options = {"startingTimestamp": T0 + 90_000, "endingTimestamp": T0 + 95_000}
    assert batch(spark, servers, subscribe=topic, **options) == [90, 91, 92, 93, 94]
    by_partition = json.dumps({topic: {"0": T0 + 98_000, "1": T0 + 97_000}})
    assert batch(spark, servers, subscribe=topic, startingOffsetsByTimestamp=by_partition) == [97, 98, 99]
    ends = json.dumps({topic: {"0": T0 + 3_000, "1": T0 + 2_000}})
    assert batch(spark, servers, subscribe=topic, endingOffsetsByTimestamp=ends) == [0, 1, 2]
    # A time after the last record is the end of the partition.
    late = json.dumps({topic: {"0": T0 + 500_000, "1": T0 + 1_500}})
    assert batch(spark, servers, subscribe=topic, endingOffsetsByTimestamp=late) == sorted([1, *range(0, 100, 2)])


def test_a_stream_begins_by_offset_or_time(spark: Any, servers: str, topic: str, checkpoint: str) -> None:
    starts = json.dumps({topic: {"0": 48, "1": -1}})
    assert stream(spark, servers, f"{checkpoint}-1", subscribe=topic, startingOffsets=starts) == [96, 98]
    assert stream(spark, servers, f"{checkpoint}-2", subscribe=topic, startingTimestamp=T0 + 97_000) == [97, 98, 99]
    # Nothing is as late as this in partition 1, which is an error unless one says what to do.
    by_time = {"startingOffsetsByTimestamp": json.dumps({topic: {"0": T0 + 97_500, "1": T0 + 99_500}})}
    with pytest.raises(Exception, match="No offset matched"):
        stream(spark, servers, f"{checkpoint}-3", subscribe=topic, **by_time)
    by_time["startingOffsetsByTimestampStrategy"] = "latest"
    assert stream(spark, servers, f"{checkpoint}-4", subscribe=topic, **by_time) == [98]


def test_more_tasks_than_partitions(spark: Any, servers: str, topic: str) -> None:
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
    frame = reader.option("minPartitions", 7).load()
    assert frame.rdd.getNumPartitions() >= 7
    assert frame.count() == 100


def test_a_stream_of_what_is_there_now(spark: Any, servers: str, topic: str, checkpoint: str) -> None:
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": 30, "minPartitions": 3}
    assert stream(spark, servers, checkpoint, **options) == list(range(100))
    with Cluster(servers) as cluster, Producer(cluster) as producer:
        producer.produce(topic, b"100")
    assert stream(spark, servers, checkpoint, **options) == [100]


def test_by_pattern_with_a_topic_that_comes_later(
    spark: Any, servers: str, new_topic: NewTopic, checkpoint: str
) -> None:
    prefix = f"p{uuid.uuid4().hex[:8]}"
    options = {"subscribePattern": f"{prefix}-.*", "startingOffsets": "earliest"}
    with Cluster(servers) as cluster:
        for number in range(2):
            Admin(cluster).create_topic(f"{prefix}-{number}", partitions=1)
            with Producer(cluster) as producer:
                producer.produce(f"{prefix}-{number}", b"%d" % number)
            assert stream(spark, servers, checkpoint, **options) == [number]
    assert batch(spark, servers, subscribePattern=f"{prefix}-.*") == [0, 1]


def test_read_committed_over_aborted_transactions_and_markers_at_the_end(
    spark: Any, servers: str, new_topic: NewTopic, checkpoint: str
) -> None:
    topic = new_topic(servers, 1)
    for start, commit in ((0, True), (10, False), (20, True), (30, False)):
        write_transaction(servers, topic, range(start, start + 10), commit=commit)
    visible = [*range(10), *range(20, 30)]
    options = {"subscribe": topic, "startingOffsets": "earliest", "kafka.isolation.level": "read_committed"}
    assert batch(spark, servers, **options) == visible
    assert batch(spark, servers, subscribe=topic, **{"kafka.isolation.level": "read_uncommitted"}) == list(range(40))
    assert stream(spark, servers, checkpoint, maxOffsetsPerTrigger=7, **options) == visible


def test_an_open_transaction_holds_a_reader_back(spark: Any, servers: str, new_topic: NewTopic) -> None:
    topic = new_topic(servers, 1)
    write_transaction(servers, topic, range(5), commit=True)
    with SinkCluster.open(SinkOptions(servers, "held", group_id="held")) as cluster:
        transactions = begin(cluster, topic, range(5, 9), "held")
        assert batch(spark, servers, subscribe=topic, **{"kafka.isolation.level": "read_committed"}) == list(range(5))
        transactions.commit()
    assert batch(spark, servers, subscribe=topic, **{"kafka.isolation.level": "read_committed"}) == list(range(9))


def test_records_that_are_gone(spark: Any, servers: str, topic: str, checkpoint: str) -> None:
    options = {"subscribe": topic, "startingOffsets": json.dumps({topic: {"0": 0, "1": 0}})}
    with Cluster(servers) as cluster:
        delete_records(cluster, topic, 0, 30)
    left = sorted([*range(60, 100, 2), *range(1, 100, 2)])
    assert stream(spark, servers, checkpoint, failOnDataLoss="false", **options) == left
    assert batch(spark, servers, failOnDataLoss="false", **options) == left
    for read in (batch, partial(stream, checkpoint=f"{checkpoint}-strict")):
        with pytest.raises(Exception, match=r"(?i)data|offset"):
            read(spark, servers, failOnDataLoss="true", **options)


def test_records_that_went_while_a_stream_was_down(spark: Any, servers: str, topic: str, checkpoint: str) -> None:
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    assert stream(spark, servers, checkpoint, **options) == list(range(100))
    with Cluster(servers) as cluster:
        with Producer(cluster) as producer:
            for number in range(100, 110):
                producer.produce(topic, b"%d" % number, partition=number % 2)
        delete_records(cluster, topic, 0, 53)
    with pytest.raises(Exception, match=r"(?i)data|offset"):
        stream(spark, servers, checkpoint, failOnDataLoss="true", **options)
    assert stream(spark, servers, checkpoint, failOnDataLoss="false", **options) == [101, 103, 105, 106, 107, 108, 109]


def write_transaction(servers: str, topic: str, numbers: range, *, commit: bool) -> None:
    name = f"writer-{topic}"
    with SinkCluster.open(SinkOptions(servers, name, group_id=name)) as cluster:
        transactions = begin(cluster, topic, numbers, name)
        if commit:
            transactions.commit()
        else:
            transactions.fence()


def begin(cluster: SinkCluster, topic: str, numbers: range, name: str) -> Transactions:
    options = SinkOptions("", name, group_id=name)
    transactions = Transactions(cluster, options)
    identity = transactions.fence()
    transactions.add_partitions([(topic, 0)])
    with Producer(cluster, identity=identity, transactional_id=name) as producer:
        for number in numbers:
            producer.produce(topic, b"%d" % number, partition=0)
    return transactions


def delete_records(cluster: Cluster, topic: str, partition: int, before: int) -> None:
    from oncelog.protocol.messages.delete_records import (
        DeleteRecordsPartition,
        DeleteRecordsRequest,
        DeleteRecordsResponse,
        DeleteRecordsTopic,
    )

    parts = [DeleteRecordsPartition(partition_index=partition, offset=before)]
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=parts)], timeout_ms=10_000)
    leader = cluster.leader_id(topic, partition)
    answer = cluster.connection(leader).send(request, DeleteRecordsResponse)
    code = answer.topics[0].partitions[0].error_code
    if code:
        raise KafkaError(code)
