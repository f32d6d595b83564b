"""`format("oncelog")`: the same guarantee, with the batch passing through the driver."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oncelog.client.cluster import Cluster
from oncelog.client.consumer import Consumer
from oncelog.client.offsets import Isolation
from oncelog.client.producer import Producer
from oncelog.spark import exactly_once_sink
from oncelog.spark.datasource import OncelogDataSource

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(300),
    # PySpark leaves the sockets of its results to the collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

NewTopic = Callable[..., str]


@pytest.fixture(autouse=True)
def _registered(spark: Any) -> None:
    spark.dataSource.register(OncelogDataSource)


def options(servers: str, topic: str, **more: str) -> dict[str, str]:
    return {"bootstrap": servers, "topic": topic, "transactional_id": f"source-{uuid.uuid4().hex[:8]}", **more}


def read(servers: str, topic: str, count: int) -> list[bytes]:
    """Reads to the end, again until `count` records are there: Apache Kafka writes its markers after its answer."""
    deadline = time.monotonic() + 30
    while True:
        with Cluster(servers) as cluster:
            found = sorted(each.record.value or b"" for each in Consumer(cluster, topic).records(follow=False))
        if len(found) >= count or time.monotonic() > deadline:
            return found


def test_a_batch_job_is_one_transaction(spark: Any, servers: str, new_topic: NewTopic) -> None:
    topic = new_topic(servers, 3)
    rows = spark.range(500).selectExpr("CAST(id AS STRING) AS key", "CAST(id AS STRING) AS value", "id AS more")
    rows.write.format("oncelog").options(**options(servers, topic)).mode("append").save()
    assert read(servers, topic, 500) == sorted(b"%d" % number for number in range(500))


def test_a_named_batch_job_writes_once(spark: Any, oncelog_servers: str, new_topic: NewTopic) -> None:
    topic = new_topic(oncelog_servers, 1)
    settings = options(oncelog_servers, topic, write_id="2026-01-01")
    rows = spark.range(5).selectExpr("CAST(id AS STRING) AS value")
    for _ in range(2):
        rows.write.format("oncelog").options(**settings).mode("append").save()
    assert len(read(oncelog_servers, topic, 5)) == 5


@pytest.mark.parametrize(
    ("columns", "changes", "words"),
    [
        (["id AS value"], {}, "it must be string or binary"),
        (["CAST(id AS STRING) AS text"], {}, "no column `value`"),
        (["CAST(id AS STRING) AS value", "CAST(7 AS INT) AS partition"], {}, "partition 7 is out of range"),
        (["repeat('x', 2000000) AS value"], {}, "too large"),
        (["CAST(id AS STRING) AS value"], {"topic": "nowhere"}, "there is no topic 'nowhere'"),
        (["CAST(id AS STRING) AS value"], {"kafka.acks": "0"}, "give up exactly-once"),
        (["CAST(id AS STRING) AS value"], {"bootstrap": ""}, "bootstrap and transactional_id are needed"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_sent(
    spark: Any, oncelog_servers: str, new_topic: NewTopic, columns: list[str], changes: dict[str, str], words: str
) -> None:
    topic = new_topic(oncelog_servers)
    settings = options(oncelog_servers, topic) | changes
    with pytest.raises(Exception, match=words):
        spark.range(3).selectExpr(*columns).write.format("oncelog").options(**settings).mode("append").save()
    with Cluster(oncelog_servers) as cluster:
        assert list(Consumer(cluster, topic, isolation=Isolation.READ_UNCOMMITTED).records(follow=False)) == []


def test_a_job_and_a_stream_cannot_share_an_id(spark: Any, oncelog_servers: str, new_topic: NewTopic) -> None:
    topic = new_topic(oncelog_servers)
    settings = options(oncelog_servers, topic)
    rows = spark.range(5).selectExpr("CAST(id AS STRING) AS value")
    exactly_once_sink(oncelog_servers, transactional_id=settings["transactional_id"], topic=topic)(rows, 0)
    with pytest.raises(Exception, match="use another one, or the option adopt"):
        rows.write.format("oncelog").options(**settings).mode("append").save()
    assert len(read(oncelog_servers, topic, 5)) == 5


def test_a_stream_recognises_a_batch_that_was_committed(
    spark: Any, servers: str, new_topic: NewTopic, checkpoint: str
) -> None:
    source, target = new_topic(servers, 1), new_topic(servers, 2)
    with Cluster(servers) as cluster, Producer(cluster) as producer:
        for number in range(100):
            producer.produce(source, b"%d" % number)
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", source)
    rows = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 50).load().select("value")
    settings = options(servers, target, checkpointLocation=checkpoint)
    for _ in range(2):
        writer = rows.writeStream.format("oncelog").options(**settings).trigger(availableNow=True)
        assert writer.start().awaitTermination(200)
        # As if the driver had died between the transaction's commit and Spark's own note of it.
        last = max(Path(checkpoint, "commits").glob("[0-9]*"), key=lambda path: int(path.name))
        last.unlink()
        Path(checkpoint, "commits", f".{last.name}.crc").unlink(missing_ok=True)
    assert read(servers, target, 100) == sorted(b"%d" % number for number in range(100))
