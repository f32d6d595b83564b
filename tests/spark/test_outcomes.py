"""What becomes of a batch when an answer, a broker, a driver or a task is lost: found out, never guessed."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from oncelog.client.admin import Admin
from oncelog.client.cluster import Cluster
from oncelog.client.consumer import Consumer
from oncelog.client.offsets import Isolation
from oncelog.client.producer import Producer
from oncelog.spark import SinkError, exactly_once_sink
from oncelog.spark.blocks import BlockEncoder, EncodePlan
from oncelog.spark.cluster import SinkCluster
from oncelog.spark.options import SinkOptions
from oncelog.spark.topics import TopicPlan
from oncelog.spark.transaction import Transactions
from oncelog.spark.writing import ATTEMPT_COLUMN, WritePlan, write_blocks
from oncelog.testing import Broker

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(300),
    # PySpark leaves the sockets of its results to the collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

ROWS = 50
FIRST, LATER_TASK, LATER_STAGE = "task 0.0 in stage 3.0", "task 0.1 in stage 3.0", "task 0.0 in stage 3.1"


@pytest.fixture(scope="module")
def killable() -> Iterator[Broker]:
    with Broker(subprocess=True) as broker:
        yield broker


@pytest.fixture
def topic(killable: Broker) -> str:
    return new_topic(killable.bootstrap_servers)


def new_topic(servers: str) -> str:
    name = f"outcome-{uuid.uuid4().hex[:8]}"
    with Cluster(servers) as cluster:
        Admin(cluster).create_topic(name, partitions=2)
    return name


def values(servers: str, topic: str, isolation: Isolation = Isolation.READ_COMMITTED) -> list[bytes]:
    with Cluster(servers) as cluster:
        found = Consumer(cluster, topic, isolation=isolation).records(follow=False)
        return sorted(each.record.value or b"" for each in found)


def expected(*batches: int) -> list[bytes]:
    return sorted(b"%d-%d" % (batch, number) for batch in batches for number in range(ROWS))


def rows(spark: Any, batch: int) -> Any:
    return spark.range(ROWS, numPartitions=2).selectExpr(f"concat('{batch}-', id) AS value")


@contextmanager
def restarted(broker: Broker, action: str) -> Iterator[None]:
    """Starts the broker again when its injected crash has come."""

    def restart() -> None:
        broker.wait_for_crash()
        broker.start()

    waiting = threading.Thread(target=restart)
    if action.startswith("crash"):
        waiting.start()
    yield
    if action.startswith("crash"):
        waiting.join()


@pytest.mark.parametrize("action", ["drop-reply", "disconnect", "crash-before", "crash-after"])
def test_a_commit_whose_answer_is_lost(spark: Any, killable: Broker, topic: str, action: str) -> None:
    servers = killable.bootstrap_servers
    sink = exactly_once_sink(servers, transactional_id=f"lost-{topic}", topic=topic)
    killable.faults.inject("EndTxn", action)
    with restarted(killable, action):
        sink(rows(spark, 0), 0)
    assert values(servers, topic) == expected(0)
    # The late answer, if it is under way, must not end the next transaction: it runs under a new epoch.
    before = sink.last_report
    sink(rows(spark, 1), 1)
    assert before is not None
    assert sink.last_report is not None
    assert sink.last_report.epoch > before.epoch
    assert values(servers, topic) == expected(0, 1)


@pytest.mark.parametrize("api", ["AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit"])
def test_a_late_request_of_a_batch_cannot_reach_the_next(spark: Any, killable: Broker, topic: str, api: str) -> None:
    """What was sent twice may arrive once more, and a late TxnOffsetCommit would take the marker back."""
    servers = killable.bootstrap_servers
    sink = exactly_once_sink(servers, transactional_id=f"late-{topic}", topic=topic)
    killable.faults.inject(api, "drop-reply")
    epochs = []
    for batch in range(3):
        sink(rows(spark, batch), batch)
        assert sink.last_report is not None
        epochs.append(sink.last_report.epoch)
    first, second, third = epochs
    assert first < second == third
    assert values(servers, topic) == expected(0, 1, 2)


@pytest.mark.parametrize("action", ["crash-before", "crash-after"])
@pytest.mark.parametrize("api", ["Produce", "AddPartitionsToTxn", "TxnOffsetCommit", "InitProducerId"])
def test_a_broker_that_dies_within_a_batch(spark: Any, killable: Broker, topic: str, api: str, action: str) -> None:
    servers = killable.bootstrap_servers
    sink = exactly_once_sink(servers, transactional_id=f"dies-{topic}", topic=topic)
    killable.faults.inject(api, action)
    with restarted(killable, action):
        sink(rows(spark, 0), 0)
    assert values(servers, topic) == expected(0)


def test_a_commit_that_took_effect_and_is_never_answered(spark: Any, killable: Broker, topic: str) -> None:
    servers = killable.bootstrap_servers
    options: dict[str, Any] = {"kafka.delivery.timeout.ms": 1000}
    sink = exactly_once_sink(servers, transactional_id=f"mute-{topic}", topic=topic, **options)
    killable.faults.inject("EndTxn", "drop-reply", times=0)
    try:
        sink(rows(spark, 0), 0)
    finally:
        killable.faults.clear()
    assert sink.last_report is not None
    assert sink.last_report.skipped
    assert values(servers, topic) == expected(0)


def test_an_outcome_that_cannot_be_found_out_is_said_to_be_unknown(spark: Any, killable: Broker, topic: str) -> None:
    servers = killable.bootstrap_servers
    options: dict[str, Any] = {"kafka.delivery.timeout.ms": 1000}
    sink = exactly_once_sink(servers, transactional_id=f"away-{topic}", topic=topic, **options)
    killable.faults.inject("EndTxn", "crash-after")
    with pytest.raises(SinkError, match="whether batch 0 is committed is not known"):
        sink(rows(spark, 0), 0)
    killable.wait_for_crash()
    killable.start()
    # The query that is started again finds out.
    again = exactly_once_sink(servers, transactional_id=f"away-{topic}", topic=topic)
    again(rows(spark, 0), 0)
    assert again.last_report is not None
    assert again.last_report.skipped
    assert values(servers, topic) == expected(0)


@pytest.mark.usefixtures("connector")
def test_a_driver_that_died_between_the_commit_and_sparks_note_of_it(
    spark: Any, killable: Broker, topic: str, tmp_path: Path
) -> None:
    servers = killable.bootstrap_servers
    source, checkpoint = new_topic(servers), tmp_path / "checkpoint"
    with Cluster(servers) as cluster, Producer(cluster) as producer:
        for number in range(ROWS):
            producer.produce(source, b"0-%d" % number)
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", source)
    copied = reader.option("startingOffsets", "earliest").load().select("value")
    skipped = []
    for _ in range(2):
        sink = exactly_once_sink(servers, transactional_id=f"note-{topic}", topic=topic)
        writer = copied.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
        assert writer.trigger(availableNow=True).start().awaitTermination(200)
        assert sink.last_report is not None
        skipped.append(sink.last_report.skipped)
        (checkpoint / "commits" / "0").unlink()
        (checkpoint / "commits" / ".0.crc").unlink(missing_ok=True)
    assert skipped == [False, True]
    assert values(servers, topic) == expected(0)


@pytest.mark.usefixtures("connector")
def test_a_batch_that_is_planned_anew_is_no_repetition(
    spark: Any, killable: Broker, topic: str, tmp_path: Path
) -> None:
    """The checkpoint comes back from a copy that was made before the batch was planned: its number says nothing."""
    servers = killable.bootstrap_servers
    source, checkpoint = new_topic(servers), tmp_path / "checkpoint"
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", source)
    copied = reader.option("startingOffsets", "earliest").load().select("value")

    def run(batch: int) -> None:
        with Cluster(servers) as cluster, Producer(cluster) as producer:
            for number in range(ROWS):
                producer.produce(source, b"%d-%d" % (batch, number))
        sink = exactly_once_sink(servers, transactional_id=f"anew-{topic}", topic=topic)
        writer = copied.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination(200)

    run(0)
    for log in ("offsets", "commits"):
        (checkpoint / log / "0").unlink()
        (checkpoint / log / ".0.crc").unlink(missing_ok=True)
    with pytest.raises(Exception, match="batch 0 of this query is committed already, with other rows"):
        run(1)
    assert values(servers, topic) == expected(0)


@pytest.mark.parametrize(
    ("attempt", "thread", "status"),
    [(0, FIRST, "written"), (1, LATER_TASK, "repeated"), (0, LATER_TASK, "repeated"), (0, LATER_STAGE, "repeated")],
)
def test_a_task_writes_in_its_first_attempt_only(
    killable: Broker, topic: str, attempt: int, thread: str, status: str
) -> None:
    servers = killable.bootstrap_servers
    options = SinkOptions(servers, f"task-{topic}", topic, group_id=f"task-{topic}")
    table = pa.RecordBatch.from_arrays([pa.array([b"x"])], names=["value"])
    (block,) = BlockEncoder(EncodePlan(options, {topic: TopicPlan(1)}, [0]), 0).encode(iter([table]))
    here = frozenset({(topic, 0)})
    with SinkCluster.open(options) as cluster:
        transactions = Transactions(cluster, options)
        identity = transactions.fence()
        transactions.add_partitions(here)
        batch = block.append_column(ATTEMPT_COLUMN, pa.array([f"Thread[Executor {thread} (TID 4),5,main]"]))
        (result,) = write_blocks(WritePlan(options, identity, {}, here), attempt, iter([batch]))
        assert result.column("status").to_pylist() == [status]
        # Before Kafka 3.6, brokers would take what is not in the transaction, and no commit would make it visible.
        (outside,) = write_blocks(WritePlan(options, identity, {}, frozenset()), 0, iter([_first(block)]))
        assert outside.column("status").to_pylist() == ["refused"]
        # What a lost attempt still has under way is refused once the driver has a new epoch.
        transactions.fence()
        (late,) = write_blocks(WritePlan(options, identity, {(topic, 0): 1}, here), 0, iter([_first(block)]))
        assert late.column("status").to_pylist() == ["refused"]
    assert values(servers, topic) == []
    assert len(values(servers, topic, Isolation.READ_UNCOMMITTED)) == (status == "written")


def _first(block: Any) -> Any:
    return block.append_column(ATTEMPT_COLUMN, pa.array([f"Thread[Executor {FIRST} (TID 4),5,main]"]))
