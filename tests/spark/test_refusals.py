"""Ways to run a query, or to call a writer, in which Spark does not do what the guarantee needs.

More of them are in test_datasource.py (triggers, output modes), and in test_sink.py (speculation, a second write).
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from oncelog.client.cluster import Cluster
from oncelog.client.consumer import Consumer
from oncelog.client.offsets import Isolation
from oncelog.spark import ExactlyOnceSink, SinkError, exactly_once_sink
from oncelog.spark.datasource import OncelogDataSource
from oncelog.spark.query import QueryState, check_planned

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(300),
    # PySpark leaves the sockets of its results to the collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

NewTopic = Callable[..., str]


@pytest.fixture(autouse=True)
def _stopped(spark: Any) -> Iterator[None]:
    """A query that should not have started would keep the cores from the other tests."""
    yield
    for query in spark.streams.active:
        query.stop()


@pytest.fixture
def topic(oncelog_servers: str, new_topic: NewTopic) -> str:
    return new_topic(oncelog_servers)


@pytest.fixture
def sink(oncelog_servers: str, topic: str) -> ExactlyOnceSink:
    return exactly_once_sink(oncelog_servers, transactional_id=f"refused-{uuid.uuid4().hex[:8]}", topic=topic)


@pytest.fixture
def settings(spark: Any, oncelog_servers: str, topic: str) -> dict[str, str]:
    spark.dataSource.register(OncelogDataSource)
    return {"bootstrap": oncelog_servers, "topic": topic, "transactional_id": f"refused-{uuid.uuid4().hex[:8]}"}


def batches(spark: Any) -> Any:
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
    return rows.selectExpr("CAST(value AS STRING) AS value").writeStream


def ticking(spark: Any) -> Any:
    rows = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
    return rows.selectExpr("CAST(value AS STRING) AS value").writeStream


def count(servers: str, topic: str, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> int:
    with Cluster(servers) as cluster:
        return len(list(Consumer(cluster, topic, isolation=isolation).records(follow=False)))


def test_a_query_without_a_checkpoint(spark: Any, oncelog_servers: str, topic: str, sink: ExactlyOnceSink) -> None:
    """Spark makes up one for foreachBatch, and deletes it when the query stops."""
    query = batches(spark).foreachBatch(sink).start()
    with pytest.raises(Exception, match=r"no checkpointLocation.*Set option\('checkpointLocation'"):
        query.awaitTermination(60)
    assert count(oncelog_servers, topic) == 0


def test_a_stream_to_the_data_source_without_a_checkpoint(spark: Any, settings: dict[str, str]) -> None:
    with pytest.raises(Exception, match="checkpointLocation must be specified"):
        batches(spark).format("oncelog").options(**settings).start()


def test_continuous_processing_with_foreach_batch(spark: Any, sink: ExactlyOnceSink, checkpoint: str) -> None:
    writer = ticking(spark).foreachBatch(sink).option("checkpointLocation", checkpoint)
    with pytest.raises(Exception, match="'foreachBatch' is not supported with continuous trigger"):
        writer.trigger(continuous="1 second").start()


@pytest.mark.parametrize("allowed", ["true", "false"])
def test_real_time_mode(
    spark: Any, sink: ExactlyOnceSink, settings: dict[str, str], checkpoint: str, allowed: str
) -> None:
    """Spark notes what is in a batch when it has ended. The second time it does not check its own list of sinks."""
    if spark.version.startswith(("4.0", "4.1")):
        pytest.skip("PySpark has no trigger for the real-time mode before 4.2")
    spark.conf.set("spark.sql.streaming.realTimeMode.allowlistCheck", allowed)
    try:
        writer = ticking(spark).outputMode("update").option("checkpointLocation", checkpoint)
        writer = writer.trigger(realTime="5 seconds")
        with pytest.raises(SinkError, match=r"RealTimeTrigger.* is not supported"):
            writer.format("oncelog").options(**settings).start()
        # Spark 4.2 has something against the source before it looks at the sink.
        with pytest.raises(Exception, match=r"(?i)ForeachBatchSink|INPUT_STREAM_NOT_SUPPORTED"):
            writer.foreachBatch(sink).start().awaitTermination(60)
    finally:
        spark.conf.unset("spark.sql.streaming.realTimeMode.allowlistCheck")


def test_a_batch_that_was_not_planned_before_it_runs() -> None:
    """The last resort, for a mode that Spark lets a foreachBatch function run in."""
    check_planned(QueryState("query", "run", {}, "digest"), 7)
    check_planned(QueryState("", "", {}), 7)
    with pytest.raises(SinkError, match="not noted in the checkpoint what is in batch 7"):
        check_planned(QueryState("query", "run", {}), 7)


@pytest.mark.parametrize("named", ["argument", "option", "table"])
def test_continuous_processing_into_a_table(
    spark: Any, oncelog_servers: str, topic: str, settings: dict[str, str], checkpoint: str, named: str
) -> None:
    """toTable() starts a query as start() does."""
    table = f"continuous_{uuid.uuid4().hex[:8]}"
    writer = ticking(spark).options(**settings, checkpointLocation=checkpoint).trigger(continuous="1 second")
    if named == "option":
        writer = writer.format("oncelog")
    if named == "table":
        spark.sql(f"CREATE TABLE {table} (value STRING) USING oncelog")
    try:
        with pytest.raises(SinkError, match=r"ContinuousTrigger\(1000\) is not supported"):
            writer.toTable(table, format="oncelog" if named == "argument" else None)
    finally:
        spark.sql(f"DROP TABLE IF EXISTS {table}")
    assert count(oncelog_servers, topic) == 0
    assert not Path(checkpoint, "commits").exists()


def test_micro_batches_into_a_table(
    spark: Any, oncelog_servers: str, topic: str, settings: dict[str, str], checkpoint: str
) -> None:
    table = f"batches_{uuid.uuid4().hex[:8]}"
    writer = batches(spark).format("oncelog").options(**settings, checkpointLocation=checkpoint)
    try:
        assert writer.trigger(once=True).toTable(table).awaitTermination(100)
    finally:
        spark.sql(f"DROP TABLE IF EXISTS {table}")
    assert count(oncelog_servers, topic, Isolation.READ_COMMITTED) == 5


@pytest.mark.parametrize("mode", ["overwrite", "ignore", "errorifexists"])
def test_a_batch_job_only_appends(
    spark: Any, oncelog_servers: str, topic: str, settings: dict[str, str], mode: str
) -> None:
    rows = spark.range(3).selectExpr("CAST(id AS STRING) AS value")
    with pytest.raises(Exception, match=r"cannot be overwritten; use mode\('append'\)|cannot be written in the"):
        rows.write.format("oncelog").options(**settings).mode(mode).save()
    assert count(oncelog_servers, topic) == 0


def test_a_thread_of_the_users_own_writes_for_the_query(
    spark: Any, oncelog_servers: str, topic: str, sink: ExactlyOnceSink, checkpoint: str
) -> None:
    """Spark names the query in its own thread only; without the query, a second write would be skipped."""
    failures: list[BaseException] = []

    def write(batch: Any, batch_id: int) -> None:
        for _ in range(2):
            thread = threading.Thread(target=guarded, args=(batch, batch_id))
            thread.start()
            thread.join()

    def guarded(batch: Any, batch_id: int) -> None:
        try:
            sink(batch, batch_id)
        except SinkError as error:
            failures.append(error)

    query = batches(spark).foreachBatch(write).option("checkpointLocation", checkpoint).trigger(once=True).start()
    assert query.awaitTermination(100)
    assert sink._newest is not None
    assert sink._newest.query == query.id
    assert sink._newest.plan
    assert [str(failure) for failure in failures if "a second write would be taken" in str(failure)]
    assert len(failures) == 1
    assert count(oncelog_servers, topic, Isolation.READ_COMMITTED) == 5


@pytest.mark.parametrize("mode", ["update", "complete"])
def test_every_output_mode_of_a_query_gives_each_batch_once(
    spark: Any, oncelog_servers: str, topic: str, sink: ExactlyOnceSink, checkpoint: str, mode: str
) -> None:
    """What a batch consists of is the query's business; a topic gets each batch once."""
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 6).load()
    counts = rows.groupBy((rows.value % 3).alias("key")).count().selectExpr("CAST(count AS STRING) AS value")
    for runs in range(1, 3):
        writer = counts.writeStream.foreachBatch(sink).outputMode(mode).option("checkpointLocation", checkpoint)
        assert writer.trigger(once=True).start().awaitTermination(100)
        assert count(oncelog_servers, topic, Isolation.READ_COMMITTED) == 3 * runs
        # As if the driver had died between the transaction's commit and Spark's own note of it.
        last = max(Path(checkpoint, "commits").glob("[0-9]*"), key=lambda path: int(path.name))
        if runs == 1:
            last.unlink()
            Path(checkpoint, "commits", f".{last.name}.crc").unlink(missing_ok=True)
            assert writer.trigger(once=True).start().awaitTermination(100)
            assert sink.last_report is not None
            assert sink.last_report.skipped
