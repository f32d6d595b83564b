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
from oncelog.spark.datasource import BlocksMessage, OncelogDataSource, OncelogStreamWriter, _Work
from oncelog.spark.errors import SinkError
from oncelog.spark.options import parse_options
from oncelog.spark.triggers import check_trigger

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(300),
    # PySpark leaves the sockets of its results to the collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

NewTopic = Callable[..., str]

ASYNCHRONOUS = {"asyncProgressTrackingEnabled": "true", "_asyncProgressTrackingOverrideSinkSupportCheck": "true"}
"""Before 4.1 Spark allows it for its own sinks only, unless it is overridden."""


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


@pytest.mark.usefixtures("connector")
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


def ticking(spark: Any) -> Any:
    rows = spark.readStream.format("rate").option("rowsPerSecond", 10).option("numPartitions", 1).load()
    return rows.selectExpr("CAST(value AS STRING) AS value")


def assert_untouched(servers: str, topic: str, checkpoint: str) -> None:
    """Nothing was written, not even invisibly, and Spark believes nothing else."""
    with Cluster(servers) as cluster:
        assert list(Consumer(cluster, topic, isolation=Isolation.READ_UNCOMMITTED).records(follow=False)) == []
    assert list(Path(checkpoint, "commits").glob("[0-9]*")) == []


@pytest.mark.parametrize("name", ["oncelog", "Oncelog"])
@pytest.mark.parametrize("named_at_start", [False, True])
def test_continuous_processing_is_refused(
    spark: Any, oncelog_servers: str, new_topic: NewTopic, checkpoint: str, named_at_start: bool, name: str
) -> None:
    """Spark would drop all rows, without an error, and commit the source's offsets. It takes the name in any case."""
    topic = new_topic(oncelog_servers)
    writer = ticking(spark).writeStream.options(**options(oncelog_servers, topic, checkpointLocation=checkpoint))
    writer = writer.trigger(continuous="1 second")
    with pytest.raises(SinkError, match=r"ContinuousTrigger\(1000\) is not supported.*trigger\(processingTime="):
        writer.start(format=name) if named_at_start else writer.format(name).start()
    assert_untouched(oncelog_servers, topic, checkpoint)


def test_only_micro_batches_are_allowed(spark: Any) -> None:
    """So are triggers refused that this version of Spark does not know yet, such as RealTimeTrigger."""
    triggers = spark._jvm.org.apache.spark.sql.streaming.Trigger
    for trigger in (triggers.Once(), triggers.AvailableNow(), triggers.ProcessingTime(0)):
        check_trigger(trigger)
    with pytest.raises(SinkError, match="is not supported"):
        check_trigger(spark._jvm.java.lang.Object())


def test_other_sinks_keep_their_triggers(spark: Any) -> None:
    query = ticking(spark).writeStream.format("noop").trigger(continuous="1 second").start()
    query.stop()


def test_an_epoch_whose_rows_the_writer_never_got_is_not_committed() -> None:
    """The last resort, where a query was started past the check of its trigger."""
    work = _Work(parse_options("localhost:1", "id", "t", False, {}), ["value"])
    with pytest.raises(SinkError, match="Spark did not give its rows to the writer"):
        OncelogStreamWriter(work).commit([None], 0)
    with pytest.raises(SinkError, match="does not say which query"):
        OncelogStreamWriter(work).commit([BlocksMessage([], "")], 0)


@pytest.mark.usefixtures("connector")
@pytest.mark.parametrize("trigger", [{"once": True}, {"availableNow": True}, {"processingTime": "100 milliseconds"}])
def test_every_trigger_of_micro_batches_works(
    spark: Any, oncelog_servers: str, new_topic: NewTopic, checkpoint: str, trigger: dict[str, Any]
) -> None:
    source, target = new_topic(oncelog_servers, 1), new_topic(oncelog_servers, 1)
    with Cluster(oncelog_servers) as cluster, Producer(cluster) as producer:
        for number in range(20):
            producer.produce(source, b"%d" % number)
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", oncelog_servers)
    rows = reader.option("subscribe", source).option("startingOffsets", "earliest").load().select("value")
    settings = options(oncelog_servers, target, checkpointLocation=checkpoint)
    query = rows.writeStream.format("oncelog").options(**settings).trigger(**trigger).start()
    if "processingTime" in trigger:
        query.processAllAvailable()
        query.stop()
    assert query.awaitTermination(200)
    assert read(oncelog_servers, target, 20) == sorted(b"%d" % number for number in range(20))


@pytest.mark.parametrize("mode", ["complete", "update"])
def test_an_output_mode_that_rewrites_rows_is_refused(
    spark: Any, oncelog_servers: str, new_topic: NewTopic, checkpoint: str, mode: str
) -> None:
    topic = new_topic(oncelog_servers)
    counts = ticking(spark).groupBy("value").count().select("value")
    settings = options(oncelog_servers, topic, checkpointLocation=checkpoint)
    stream = counts.writeStream.format("oncelog").options(**settings).outputMode(mode)
    with pytest.raises(Exception, match=r"Update mode|must be append"):
        stream.start().awaitTermination(60)
    assert_untouched(oncelog_servers, topic, checkpoint)


@pytest.mark.parametrize("as_data_source", [True, False])
def test_progress_that_is_noted_later_is_refused(
    spark: Any, oncelog_servers: str, new_topic: NewTopic, checkpoint: str, as_data_source: bool
) -> None:
    topic = new_topic(oncelog_servers)
    stream = ticking(spark).writeStream.options(**ASYNCHRONOUS).option("checkpointLocation", checkpoint)
    if as_data_source:
        stream = stream.format("oncelog").options(**options(oncelog_servers, topic))
    else:
        stream = stream.foreachBatch(exactly_once_sink(oncelog_servers, transactional_id="asynchronous", topic=topic))
    query = stream.start()
    with pytest.raises(Exception, match="asyncProgressTrackingEnabled"):
        query.awaitTermination(60)
    assert_untouched(oncelog_servers, topic, checkpoint)


def test_a_batch_job_in_foreach_batch_needs_a_name(
    spark: Any, oncelog_servers: str, new_topic: NewTopic, checkpoint: str
) -> None:
    """Without one it would be written again when Spark repeats the batch."""
    topic = new_topic(oncelog_servers)
    settings = options(oncelog_servers, topic)

    def write(rows: Any, batch_id: int) -> None:
        rows.write.format("oncelog").options(**settings).mode("append").save()

    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
    rows = rows.selectExpr("CAST(value AS STRING) AS value")
    query = rows.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint).start()
    with pytest.raises(Exception, match="use exactly_once_sink there"):
        query.awaitTermination(60)
    assert_untouched(oncelog_servers, topic, checkpoint)


def test_a_named_batch_job_in_foreach_batch_writes_once(
    spark: Any, oncelog_servers: str, new_topic: NewTopic, checkpoint: str
) -> None:
    topic = new_topic(oncelog_servers)
    settings = options(oncelog_servers, topic)

    def write(rows: Any, batch_id: int) -> None:
        for _ in range(2):
            writer = rows.write.format("oncelog").options(**settings, write_id=f"batch {batch_id}")
            writer.mode("append").save()

    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
    rows = rows.selectExpr("CAST(value AS STRING) AS value")
    stream = rows.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
    assert stream.trigger(once=True).start().awaitTermination(100)
    assert len(read(oncelog_servers, topic, 5)) == 5


def test_it_only_writes(spark: Any) -> None:
    spark.dataSource.register(OncelogDataSource)
    stream = spark.readStream.format("oncelog").schema("value string")
    for read in (
        lambda: spark.read.format("oncelog").load(),
        lambda: spark.read.format("oncelog").schema("value string").load().collect(),
        lambda: spark.readStream.format("oncelog").load(),
        lambda: stream.load().writeStream.format("noop").start().awaitTermination(),
    ):
        with pytest.raises(Exception, match=r'format\("oncelog"\) only writes: .* format\("kafka"\)'):
            read()
