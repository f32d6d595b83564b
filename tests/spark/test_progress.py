"""The marker of a batch outlives the topics that it is kept at, and tools show no lag where it is."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.reference import jars
from conformance.reference.kafka import ApacheKafka
from oncelog.client.admin import Admin
from oncelog.client.cluster import Cluster
from oncelog.client.consumer import Consumer
from oncelog.client.errors import UnknownTopic
from oncelog.client.offsets import LATEST, list_offsets
from oncelog.client.producer import Producer
from oncelog.spark import ExactlyOnceSink, SinkError, exactly_once_sink
from oncelog.spark.cluster import SinkCluster
from oncelog.spark.options import SinkOptions
from oncelog.spark.progress import TOPICS_MAX, output_offsets
from oncelog.spark.transaction import CommittedOffset, Transactions

pytestmark = [
    pytest.mark.timeout(300),
    # PySpark leaves the sockets of its results to the collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

NewTopic = Callable[..., str]


def test_each_topic_that_was_written_to_has_a_place() -> None:
    assert output_offsets({("a", 2): 7, ("a", 1): 5, ("b", 0): 3}, {}) == {("a", 1): 5, ("b", 0): 3}


def test_a_place_moves_with_its_partition() -> None:
    places = {("a", 1): 5, ("a", 3): 9}
    assert output_offsets({("a", 0): 4, ("a", 3): 12}, places) == {("a", 3): 12}
    # Otherwise the lowest written partition becomes a place, and the old one has not grown.
    assert output_offsets({("a", 0): 4}, places) == {("a", 0): 4}


def test_a_topic_without_rows_in_this_batch_keeps_its_place() -> None:
    assert output_offsets({("b", 0): 3}, {("a", 1): 5}) == {("a", 1): 5, ("b", 0): 3}


def test_a_query_that_adopts_leaves_no_marker_of_the_one_before() -> None:
    """With its checkpoint, which may come back, such a marker would be taken for the newest."""
    places = {("a", 1): 5, ("a", 3): 9, ("c", 0): 1}
    found = output_offsets({("a", 3): 12, ("b", 0): 3}, places, adopts=True)
    assert found == {("a", 1): 5, ("a", 3): 12, ("c", 0): 1, ("b", 0): 3}


def test_the_number_of_places_is_bounded() -> None:
    ends = {(f"new-{number}", 0): 1 for number in range(2 * TOPICS_MAX)}
    found = output_offsets(ends, {("old", 0): 1})
    assert len(found) == TOPICS_MAX
    assert ("old", 0) in found


def recreate(servers: str, topic: str) -> None:
    with Cluster(servers) as cluster:
        partitions = len(cluster.topic(topic).partitions)
        Admin(cluster).delete_topic(topic)
    deadline = time.monotonic() + 60
    while True:
        with Cluster(servers) as cluster:
            try:
                cluster.topic(topic)
            except UnknownTopic:
                break
        assert time.monotonic() < deadline, f"{topic} is still there"
    with Cluster(servers) as cluster:
        Admin(cluster).create_topic(topic, partitions=partitions)


def values(servers: str, topic: str, count: int = 0) -> list[bytes]:
    deadline = time.monotonic() + 30
    while True:
        with Cluster(servers) as cluster:
            found = sorted(each.record.value or b"" for each in Consumer(cluster, topic).records(follow=False))
        if len(found) >= count or time.monotonic() > deadline:
            return found


def new_sink(servers: str, identity: str, topic: str | None = None) -> ExactlyOnceSink:
    return exactly_once_sink(servers, transactional_id=identity, topic=topic)


@pytest.mark.spark
@pytest.mark.parametrize("recreated", [0, 1])
def test_a_repeated_batch_is_recognized_after_one_of_its_topics_was_recreated(
    spark: Any, servers: str, new_topic: NewTopic, recreated: int
) -> None:
    topics = [new_topic(servers, 2), new_topic(servers, 1)]
    rows = spark.range(10).selectExpr(
        f"IF(id < 5, '{topics[0]}', '{topics[1]}') AS topic", "CAST(id AS STRING) AS value"
    )
    identity = f"recreated-{uuid.uuid4().hex[:8]}"
    new_sink(servers, identity)(rows, 0)
    recreate(servers, topics[recreated])
    again = new_sink(servers, identity)
    again(rows, 0)
    assert again.last_report is not None
    assert again.last_report.skipped
    kept = 1 - recreated
    assert values(servers, topics[kept], 5) == [b"%d" % n for n in range(5 * kept, 5 * kept + 5)]


@pytest.mark.spark
@pytest.mark.usefixtures("connector")
def test_a_repeated_batch_is_recognized_after_its_source_was_recreated_and_filled_again(
    spark: Any, servers: str, new_topic: NewTopic, checkpoint: str
) -> None:
    source, target = new_topic(servers, 1), new_topic(servers, 1)
    identity = f"refilled-{uuid.uuid4().hex[:8]}"
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", source)
    rows = reader.option("startingOffsets", "earliest").load().select("value")

    def run() -> ExactlyOnceSink:
        with Cluster(servers) as cluster, Producer(cluster) as producer:
            for number in range(10):
                producer.produce(source, b"%d" % number)
        sink = new_sink(servers, identity, target)
        writer = rows.writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint)
        assert writer.trigger(availableNow=True).start().awaitTermination(200)
        return sink

    run()
    # As if the driver had died between the transaction's commit and Spark's note of it.
    Path(checkpoint, "commits", "0").unlink()
    Path(checkpoint, "commits", ".0.crc").unlink(missing_ok=True)
    recreate(servers, source)
    again = run()
    assert again.last_report is not None
    assert again.last_report.skipped
    assert values(servers, target, 10) == [b"%d" % n for n in range(10)]


@pytest.mark.spark
def test_the_sinks_group_shows_no_lag_at_the_outputs(spark: Any, oncelog_servers: str, new_topic: NewTopic) -> None:
    topic = new_topic(oncelog_servers, 3)
    sink = new_sink(oncelog_servers, f"lag-{uuid.uuid4().hex[:8]}", topic)
    for batch, partitions in enumerate(([1, 2], [0], [0, 2], [1])):
        each = ", ".join(f"CAST({partition} AS INT)" for partition in partitions)
        sink(spark.range(4).selectExpr(f"explode(array({each})) AS partition", "'x' AS value"), batch)
    with SinkCluster.open(sink.options) as cluster:
        committed = Transactions(cluster, sink.options).committed()
        ends = list_offsets(cluster, dict.fromkeys(committed, LATEST))
    assert {where: each.offset for where, each in committed.items()} == {w: each.offset for w, each in ends.items()}


@pytest.fixture
def restricted() -> Iterator[ApacheKafka]:
    """Apache Kafka with an authorizer; who connects without TLS or SASL is User:ANONYMOUS."""
    if (reason := jars.missing()) is not None:
        pytest.skip(reason)
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with ApacheKafka(settings) as kafka:
        yield kafka


@pytest.mark.java
def test_the_right_to_write_to_a_topic_is_enough(restricted: ApacheKafka) -> None:
    """Kafka takes an offset only at a topic that the user may read; the marker is then kept at the source alone."""
    servers = restricted.bootstrap_servers
    options = SinkOptions(servers, "restricted", group_id="restricted")
    with Cluster(servers) as cluster:
        for topic in ("in", "out"):
            Admin(cluster).create_topic(topic, partitions=1)
    allow(servers, "out", "WRITE", "DESCRIBE")
    with SinkCluster.open(options) as cluster:
        transactions = Transactions(cluster, options)
        transactions.fence()
        offset, places = CommittedOffset(3, "marker"), [("in", 0), ("out", 0)]
        transactions.commit_offsets(dict.fromkeys(places, offset), optional=places[1:])
        transactions.commit()
        transactions.fence()
        assert transactions.committed() == {("in", 0): offset}
        with pytest.raises(SinkError, match="TOPIC_AUTHORIZATION_FAILED"):
            transactions.commit_offsets({places[1]: offset}, optional=places[1:])


def allow(servers: str, topic: str, *operations: str) -> None:
    from confluent_kafka.admin import (
        AclBinding,
        AclOperation,
        AclPermissionType,
        AdminClient,
        ResourcePatternType,
        ResourceType,
    )

    client = AdminClient({"bootstrap.servers": servers})
    bindings = [
        AclBinding(
            ResourceType.TOPIC,
            topic,
            ResourcePatternType.LITERAL,
            "User:ANONYMOUS",
            "*",
            AclOperation[operation],
            AclPermissionType.ALLOW,
        )
        for operation in operations
    ]
    for done in client.create_acls(bindings).values():
        done.result(30)
