"""The sink in a Spark session, against both brokers: a batch is a transaction, and errors leave nothing behind."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from oncelog.client.admin import Admin
from oncelog.client.cluster import Cluster
from oncelog.client.consumer import Consumer
from oncelog.client.offsets import LATEST, Isolation, list_offsets
from oncelog.client.partitioner import partition_for_key
from oncelog.client.producer import Producer
from oncelog.spark import ExactlyOnceSink, SinkError, TransactionalIdInUse, exactly_once_sink
from oncelog.spark.cluster import SinkCluster
from oncelog.spark.errors import Repeat
from oncelog.spark.marker import Marker, decode_marker
from oncelog.spark.query import QueryState
from oncelog.spark.sink import check_results
from oncelog.spark.transaction import Transactions
from oncelog.spark.writing import FAILED, REPEATED, WRITTEN, WriteResult
from oncelog.testing import Broker

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(300),
    # PySpark leaves the sockets of its results to the collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

NewTopic = Callable[..., str]


def new_sink(servers: str, topic: str | None, identity: str | None = None, **options: Any) -> ExactlyOnceSink:
    name = identity or f"sink-{uuid.uuid4().hex[:8]}"
    return exactly_once_sink(servers, transactional_id=name, topic=topic, **options)


def read(
    servers: str, topic: str, isolation: Isolation = Isolation.READ_COMMITTED, *, count: int = 0
) -> list[tuple[int, bytes | None]]:
    """Reads to the end, again until `count` records are there: Apache Kafka writes its markers after its answer."""
    deadline = time.monotonic() + 30
    while True:
        with Cluster(servers) as cluster:
            records = Consumer(cluster, topic, isolation=isolation).records(follow=False)
            found = [(each.partition, each.record.value) for each in records]
        if len(found) >= count or time.monotonic() > deadline:
            return found


def committed(servers: str, sink: ExactlyOnceSink) -> dict[tuple[str, int], Any]:
    with SinkCluster.open(sink.options) as cluster:
        return Transactions(cluster, sink.options).committed()


@pytest.mark.parametrize("lost", ["all", "some"])
def test_rows_are_written_though_spark_loses_what_tasks_report(
    spark: Any, servers: str, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    """Accumulators are best-effort: an update that fails in the driver is a line in Spark's log."""

    def lose(_: object, known: frozenset[Any], reported: frozenset[Any]) -> frozenset[Any]:
        return known if lost == "all" else known | frozenset(sorted(reported)[:1])

    monkeypatch.setattr("oncelog.spark.tasks._Union.addInPlace", lose)
    topic = new_topic(servers, 3)
    sink = new_sink(servers, topic)
    rows = spark.range(100).selectExpr("CAST(id AS STRING) AS key", "CAST(id AS STRING) AS value")
    for batch_id in range(2):
        sink(rows, batch_id)
        assert sink.last_report is not None
        assert (sink.last_report.records, sink.last_report.runs) == (100, 2 - batch_id)
    found = [value for _, value in read(servers, topic, count=200)]
    assert sorted(found) == sorted(2 * [b"%d" % number for number in range(100)])
    sink(rows.limit(0), 2)
    assert len(read(servers, topic, count=200)) == 200


def test_a_batch_becomes_visible_and_its_repetition_is_skipped(spark: Any, servers: str, new_topic: NewTopic) -> None:
    topic = new_topic(servers, 3)
    sink = new_sink(servers, topic)
    rows = spark.range(1000).selectExpr("CAST(id % 10 AS STRING) AS key", "CAST(id AS STRING) AS value")
    sink(rows, 0)
    assert sink.last_report is not None
    assert (sink.last_report.records, sink.last_report.skipped, sink.last_report.runs) == (1000, False, 1)
    expected = sorted((partition_for_key(b"%d" % (n % 10), 3), b"%d" % n) for n in range(1000))
    assert sorted(read(servers, topic, count=1000)) == expected
    sink(rows, 0)
    assert sink.last_report.skipped
    # Another driver, with the same checkpoint, recognises it too.
    other = new_sink(servers, topic, sink.options.transactional_id)
    other(rows, 0)
    assert other.last_report is not None
    assert other.last_report.skipped
    other(rows.limit(10), 1)
    assert len(read(servers, topic, count=1010)) == 1010


def test_sequences_go_on_from_batch_to_batch(spark: Any, servers: str, new_topic: NewTopic) -> None:
    topic = new_topic(servers, 2)
    sink = new_sink(servers, topic, **{"kafka.batch.size": 2000, "kafka.compression.type": "lz4"})
    epochs = set()
    for batch_id in range(3):
        sink(spark.range(500).selectExpr(f"concat('{batch_id}-', id) AS value"), batch_id)
        assert sink.last_report is not None
        epochs.add(sink.last_report.epoch)
    assert len(epochs) == 1
    wanted = sorted(b"%d-%d" % (batch, n) for batch in range(3) for n in range(500))
    assert sorted(value or b"" for _, value in read(servers, topic, count=1500)) == wanted


def test_several_topics_in_one_transaction(spark: Any, servers: str, new_topic: NewTopic) -> None:
    one, two = new_topic(servers, 2, retention_ms="-1"), new_topic(servers, 1, retention_ms="-1")
    rows = spark.range(100).selectExpr(
        f"IF(id % 2 = 0, '{one}', '{two}') AS topic",
        "CAST(IF(id % 2 = 0, 1, 0) AS INT) AS partition",
        "CAST(id AS STRING) AS value",
        "array(named_struct('key', 'h', 'value', CAST('1' AS BINARY))) AS headers",
        "TIMESTAMP_MILLIS(1700000000000 + id) AS timestamp",
    )
    new_sink(servers, None)(rows, 0)
    assert sorted(read(servers, one, count=50)) == sorted((1, b"%d" % n) for n in range(0, 100, 2))
    assert sorted(read(servers, two, count=50)) == sorted((0, b"%d" % n) for n in range(1, 100, 2))
    with Cluster(servers) as cluster:
        record = next(Consumer(cluster, two).records(follow=False)).record
    assert list(record.headers) == [("h", b"1")]
    assert record.timestamp == 1700000000000 + int(record.value or b"")


@pytest.mark.parametrize("with_jvm", [True, False])
def test_only_partitions_with_rows_join_the_transaction(
    spark: Any, servers: str, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch, with_jvm: bool
) -> None:
    """Each of the others would get a marker in its log."""
    if not with_jvm:
        monkeypatch.setattr("oncelog.spark.gathering.run_shuffle", lambda _: None)
    topic = new_topic(servers, 4)
    sink = new_sink(servers, topic)
    for batch_id, partition in enumerate((2, 1)):
        rows = spark.range(10).selectExpr("CAST(id AS STRING) AS value", f"CAST({partition} AS INT) AS partition")
        sink(rows, batch_id)
    sink(rows.where("false"), 2)
    assert len(read(servers, topic, count=20)) == 20
    with Cluster(servers) as cluster:
        ends = list_offsets(cluster, {(topic, partition): LATEST for partition in range(4)})
    assert {where[1]: each.offset for where, each in ends.items()} == {0: 0, 1: 11, 2: 11, 3: 0}


def test_an_empty_batch_commits_its_number_only(spark: Any, servers: str, new_topic: NewTopic) -> None:
    topic = new_topic(servers, 2)
    sink = new_sink(servers, topic)
    sink(spark.range(0).selectExpr("CAST(id AS STRING) AS value"), 4)
    assert read(servers, topic) == []
    assert [each.metadata for each in committed(servers, sink).values()] == [Marker("", 4).encode()]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (["CAST(id AS STRING) AS text"], "no column `value`"),
        (["id AS value"], "`value` is bigint; it must be string or binary"),
        (["CAST(id AS STRING) AS value", "id AS key"], "`key` is bigint"),
        (["CAST(id AS STRING) AS value", "id AS partition"], "`partition` is bigint; it must be int"),
        (["CAST(id AS STRING) AS value", "id AS timestamp"], "`timestamp` is bigint"),
        (["CAST(id AS STRING) AS value", "array(id) AS headers"], "`headers` is array<bigint>"),
        (["CAST(id AS STRING) AS value", "CAST(7 AS INT) AS partition"], "partition 7 is out of range"),
        (["repeat('x', 2000000) AS value"], "too large"),
    ],
)
def test_bad_rows_are_refused_before_anything_is_sent(
    spark: Any, oncelog_servers: str, new_topic: NewTopic, columns: list[str], words: str
) -> None:
    topic = new_topic(oncelog_servers, 2)
    with pytest.raises(SinkError, match=words):
        new_sink(oncelog_servers, topic)(spark.range(3).selectExpr(*columns), 0)
    assert read(oncelog_servers, topic, Isolation.READ_UNCOMMITTED) == []


def test_the_column_of_topics_has_names(spark: Any, oncelog_servers: str) -> None:
    with pytest.raises(SinkError, match="`topic` is bigint; it must be string"):
        new_sink(oncelog_servers, None)(spark.range(3).selectExpr("CAST(id AS STRING) AS value", "id AS topic"), 0)


def test_topics_are_not_created(spark: Any, servers: str) -> None:
    rows = spark.range(3).selectExpr("CAST(id AS STRING) AS value")
    with pytest.raises(SinkError, match="there is no topic 'nowhere'"):
        new_sink(servers, "nowhere")(rows, 0)
    with pytest.raises(SinkError, match="there is no topic 'nowhere'"):
        new_sink(servers, None)(rows.selectExpr("value", "'nowhere' AS topic"), 0)
    with pytest.raises(SinkError, match="no column `topic`"):
        new_sink(servers, None)(rows, 0)
    with Cluster(servers) as cluster:
        assert "nowhere" not in {topic.name for topic in cluster.topics()}


def test_a_failed_batch_leaves_nothing_visible_and_can_be_repeated(
    spark: Any, servers: str, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic(servers, 2)
    sink = new_sink(servers, topic)
    rows = spark.range(100).selectExpr("CAST(id AS STRING) AS value")
    with monkeypatch.context() as patch:
        patch.setattr(Transactions, "commit_offsets", _fail)
        with pytest.raises(ZeroDivisionError):
            sink(rows, 0)
    assert read(servers, topic) == []
    assert len(read(servers, topic, Isolation.READ_UNCOMMITTED)) == 100
    sink(rows, 0)
    assert len(read(servers, topic, count=100)) == 100


def _fail(*_: object, **__: object) -> None:
    raise ZeroDivisionError


def test_an_attempt_that_repeats_makes_the_batch_run_again_under_a_new_epoch(
    spark: Any, servers: str, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic(servers, 2)
    sink = new_sink(servers, topic)
    repeats = iter([True, False])

    def check(results: list[WriteResult]) -> list[WriteResult]:
        if next(repeats):
            raise Repeat("Spark ran a task of the batch again")
        return check_results(results)

    monkeypatch.setattr("oncelog.spark.sink.check_results", check)
    sink(spark.range(100).selectExpr("CAST(id AS STRING) AS value"), 0)
    assert sink.last_report is not None
    assert sink.last_report.runs == 2
    assert len(read(servers, topic, count=100)) == 100
    assert len(read(servers, topic, Isolation.READ_UNCOMMITTED)) == 200


def test_a_lost_answer_to_the_commit_is_found_out(
    spark: Any, servers: str, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic(servers, 1)
    sink = new_sink(servers, topic)
    rows = spark.range(10).selectExpr("CAST(id AS STRING) AS value")
    real = Transactions.commit

    def commit_and_lose_the_answer(self: Transactions) -> bool:
        real(self)
        raise Repeat("the answer was lost")

    with monkeypatch.context() as patch:
        patch.setattr(Transactions, "commit", commit_and_lose_the_answer)
        sink(rows, 0)
    assert sink.last_report is not None
    assert sink.last_report.skipped
    assert len(read(servers, topic, count=10)) == 10


def test_the_newer_driver_fences_the_older(spark: Any, servers: str, new_topic: NewTopic) -> None:
    topic = new_topic(servers, 1)
    rows = spark.range(10).selectExpr("CAST(id AS STRING) AS value")
    older = new_sink(servers, topic)
    older(rows, 0)
    newer = new_sink(servers, topic, older.options.transactional_id)
    newer(rows, 1)
    with pytest.raises(TransactionalIdInUse, match="in use by another query"):
        older(rows, 2)
    assert len(read(servers, topic, count=20)) == 20
    newer(rows, 2)
    assert len(read(servers, topic, count=30)) == 30


def test_a_checkpoint_and_a_transactional_id_belong_together(
    spark: Any, servers: str, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic(servers, 1)
    rows = spark.range(10).selectExpr("CAST(id AS STRING) AS value")
    sink = new_sink(servers, topic)
    sink(rows, 7)
    with pytest.raises(SinkError, match="the checkpoint is older than the output"):
        sink(rows, 6)
    spark.sparkContext.setLocalProperty("sql.streaming.queryId", str(uuid.uuid4()))
    try:
        with pytest.raises(SinkError, match="adopt=True to begin anew"):
            new_sink(servers, topic, sink.options.transactional_id)(rows, 0)
        adopting = new_sink(servers, topic, sink.options.transactional_id, adopt=True)
        adopting(rows, 0)
        adopting(rows, 1)
    finally:
        spark.sparkContext.setLocalProperty("sql.streaming.queryId", None)
    assert len(read(servers, topic, count=30)) == 30


def test_speculation_is_refused(spark: Any, servers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = spark.range(1).selectExpr("CAST(id AS STRING) AS value")
    conf = spark.sparkContext.getConf().set("spark.speculation", "true")
    monkeypatch.setattr(type(spark.sparkContext), "getConf", lambda _: conf)
    with pytest.raises(SinkError, match="speculation"):
        new_sink(servers, "any")(rows, 0)


@pytest.mark.usefixtures("connector")
def test_a_stream_from_topic_to_topic(
    spark: Any, servers: str, new_topic: NewTopic, checkpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = new_topic(servers, 2), new_topic(servers, 3)
    prepared = []
    monkeypatch.setattr("oncelog.spark.sink.prepare_session", prepared.append)
    fill(servers, source, 0, 500)
    sink = new_sink(servers, target)
    run_stream(spark, servers, source, sink, checkpoint)
    fill(servers, source, 500, 700)
    again = new_sink(servers, target, sink.options.transactional_id)
    run_stream(spark, servers, source, again, checkpoint)
    assert sorted(value or b"" for _, value in read(servers, target, count=700)) == sorted(
        b"%d" % n for n in range(700)
    )
    # Two runs, the first of several batches.
    assert len(prepared) == 2
    # The group of the same name shows how far the query is.
    offsets = committed(servers, sink)
    assert sum(each.offset for where, each in offsets.items() if where[0] == source) == 700
    assert {where[0] for where in offsets} == {source, target}


@pytest.mark.usefixtures("connector")
def test_a_source_on_another_cluster(spark: Any, servers: str, new_topic: NewTopic, checkpoint: str) -> None:
    """Offsets of topics that the sink's cluster does not have cannot be committed there; the batch's number can."""
    target = new_topic(servers, 2)
    sink = new_sink(servers, target, **{"kafka.delivery.timeout.ms": 5000})
    with Broker() as other:
        source = new_topic(other.bootstrap_servers, 2)
        for start in (0, 10):
            fill(other.bootstrap_servers, source, start, start + 10)
            run_stream(spark, other.bootstrap_servers, source, sink, checkpoint)
    assert len(read(servers, target, count=20)) == 20
    places = committed(servers, sink)
    assert {where[0] for where in places} == {target}
    assert {decode_marker(each.metadata).batch for each in places.values()} == {1}  # type: ignore[union-attr]


def test_a_source_that_is_there_in_part(
    spark: Any, servers: str, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = new_topic(servers, 1), new_topic(servers, 1)
    sink = new_sink(servers, target, **{"kafka.delivery.timeout.ms": 5000})
    offsets = {(source, 0): 7, (source, 1): 8, ("elsewhere", 0): 9}
    monkeypatch.setattr("oncelog.spark.sink.read_query", lambda *_: QueryState("", "", offsets))
    sink(spark.range(3).selectExpr("CAST(id AS STRING) AS value"), 0)
    assert len(read(servers, target, count=3)) == 3
    # Behind the three rows comes the mark of the transaction's end.
    assert {where: each.offset for where, each in committed(servers, sink).items()} == {(source, 0): 7, (target, 0): 4}


@pytest.mark.usefixtures("connector")
def test_two_queries_cannot_share_an_id(spark: Any, servers: str, new_topic: NewTopic, tmp_path: Any) -> None:
    source, target = new_topic(servers, 1), new_topic(servers, 1)
    fill(servers, source, 0, 10)
    first = new_sink(servers, target)
    reader = spark.readStream.format("rate").load().selectExpr("CAST(value AS STRING) AS value")
    writer = reader.writeStream.foreachBatch(first).option("checkpointLocation", str(tmp_path / "one"))
    query = writer.start()
    try:
        while first.last_report is None and query.isActive:
            time.sleep(0.05)
        second = new_sink(servers, target, first.options.transactional_id)
        with pytest.raises(Exception, match="is in use by the running query"):
            run_stream(spark, servers, source, second, str(tmp_path / "two"))
    finally:
        query.stop()


@pytest.mark.usefixtures("connector")
def test_a_batch_goes_to_two_clusters_under_one_id(
    spark: Any, oncelog_servers: str, new_topic: NewTopic, checkpoint: str
) -> None:
    source, target = new_topic(oncelog_servers, 1), new_topic(oncelog_servers, 1)
    with Broker() as other:
        mirror = new_topic(other.bootstrap_servers, 1)
        here = new_sink(oncelog_servers, target)
        there = new_sink(other.bootstrap_servers, mirror, here.options.transactional_id)

        def write(batch: Any, batch_id: int) -> None:
            here(batch, batch_id)
            there(batch, batch_id)

        # maxOffsetsPerTrigger makes two batches of the first run.
        for start, end in ((0, 400), (400, 410)):
            fill(oncelog_servers, source, start, end)
            run_stream(spark, oncelog_servers, source, write, checkpoint)
        wanted = sorted((0, b"%d" % n) for n in range(410))
        assert sorted(read(oncelog_servers, target, count=410)) == wanted
        assert sorted(read(other.bootstrap_servers, mirror, count=410)) == wanted


@pytest.mark.usefixtures("connector")
@pytest.mark.parametrize("sinks", [1, 2])
def test_a_batch_cannot_be_written_twice_under_one_id(
    spark: Any, oncelog_servers: str, new_topic: NewTopic, checkpoint: str, sinks: int
) -> None:
    """The second write would find the marker of the first, and be taken for its repetition."""
    source, target = new_topic(oncelog_servers, 1), new_topic(oncelog_servers, 1)
    fill(oncelog_servers, source, 0, 10)
    first = new_sink(oncelog_servers, target)
    # The same cluster under another address.
    address = oncelog_servers.replace("127.0.0.1", "localhost")
    second = first if sinks == 1 else new_sink(address, target, first.options.transactional_id)

    def write(batch: Any, batch_id: int) -> None:
        first(batch.where("CAST(CAST(value AS STRING) AS INT) < 5"), batch_id)
        second(batch.where("CAST(CAST(value AS STRING) AS INT) >= 5"), batch_id)

    with pytest.raises(Exception, match="each write of a batch needs a transactional id of its own"):
        run_stream(spark, oncelog_servers, source, write, checkpoint)
    assert sorted(value or b"" for _, value in read(oncelog_servers, target)) == [b"%d" % n for n in range(5)]


@pytest.mark.usefixtures("connector")
def test_a_call_that_failed_may_be_repeated_in_its_batch(
    spark: Any, oncelog_servers: str, new_topic: NewTopic, checkpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = new_topic(oncelog_servers, 1), new_topic(oncelog_servers, 1)
    fill(oncelog_servers, source, 0, 10)
    sink = new_sink(oncelog_servers, target)

    def write(batch: Any, batch_id: int) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(ExactlyOnceSink, "_report", _fail)
            with pytest.raises(ZeroDivisionError):
                sink(batch, batch_id)
        sink(batch, batch_id)

    run_stream(spark, oncelog_servers, source, write, checkpoint)
    assert sink.last_report is not None
    assert sink.last_report.skipped
    assert len(read(oncelog_servers, target)) == 10


@pytest.mark.usefixtures("connector")
def test_a_sink_that_was_replaced_can_be_started_again(
    spark: Any, servers: str, new_topic: NewTopic, checkpoint: str
) -> None:
    source, target = new_topic(servers, 1), new_topic(servers, 1)
    fill(servers, source, 0, 10)
    sink = new_sink(servers, target)
    run_stream(spark, servers, source, sink, checkpoint)
    with SinkCluster.open(sink.options) as cluster:
        Transactions(cluster, sink.options).fence()
    fill(servers, source, 10, 20)
    run_stream(spark, servers, source, sink, checkpoint)
    assert len(read(servers, target, count=20)) == 20


def test_results_of_the_tasks() -> None:
    fine = [WriteResult(WRITTEN, "", "t", 0, 5, 50), WriteResult(WRITTEN, "", "t", 1, 5, 50)]
    assert check_results(fine) == fine
    with pytest.raises(Repeat):
        check_results([*fine, WriteResult(REPEATED, "again")])
    with pytest.raises(SinkError, match="no room"):
        check_results([WriteResult(REPEATED, "again"), WriteResult(FAILED, "no room")])
    with pytest.raises(Repeat, match="two tasks"):
        check_results([*fine, fine[0]])


def fill(servers: str, topic: str, start: int, end: int) -> None:
    with Cluster(servers) as cluster, Producer(cluster) as producer:
        count = len(Admin(cluster).describe_topics(topic)[0].partitions)
        for number in range(start, end):
            producer.produce(topic, b"%d" % number, key=b"%d" % number, partition=number % count)


def run_stream(spark: Any, servers: str, source: str, sink: Callable[[Any, int], None], checkpoint: str) -> None:
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", source)
    reader = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 300)
    rows = reader.load().select("key", "value")
    writer = rows.writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(200)
