"""A broker that is away, or a partition without a leader, is waited for as long as `delivery.timeout.ms` says."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from oncelog.client.admin import Admin
from oncelog.client.cluster import Cluster
from oncelog.client.offsets import LATEST, Isolation, list_offsets
from oncelog.pipeline.evidence import read_topic
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.spark.blocks import BlockEncoder, EncodePlan
from oncelog.spark.cluster import SinkCluster
from oncelog.spark.options import SinkOptions
from oncelog.spark.topics import TopicPlan, describe_topic
from oncelog.spark.transaction import Transactions
from oncelog.spark.writing import BlockWriter, WritePlan
from oncelog.testing import Broker

ASKED = 12
"""The client by itself asks about seven times for a topic before it gives up."""
TOPIC = TopicPlan(partition_count=1, message_size_bytes_max=5_000)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        with Cluster(running.bootstrap_servers) as cluster:
            Admin(cluster).create_topic("out", partitions=1, configs={"max.message.bytes": "5000"})
        yield running


@pytest.fixture
def options(broker: Broker) -> SinkOptions:
    return SinkOptions(broker.bootstrap_servers, "id", "out", group_id="id")


def test_a_leader_is_waited_for_before_a_batch(broker: Broker, options: SinkOptions) -> None:
    fault = broker.faults.inject("Metadata", "error:LEADER_NOT_AVAILABLE", times=ASKED)
    with SinkCluster.open(options) as cluster:
        assert describe_topic(cluster, "out", options.delivery_timeout_ms) == TOPIC
    assert fault.hits == ASKED


def test_a_leader_that_does_not_come_is_named_in_the_end(broker: Broker, options: SinkOptions) -> None:
    broker.faults.inject("Metadata", "error:LEADER_NOT_AVAILABLE", times=0)
    with SinkCluster.open(options) as cluster, pytest.raises(KafkaError) as caught:
        describe_topic(cluster, "out", 1)
    assert caught.value.code == ErrorCode.LEADER_NOT_AVAILABLE


@pytest.mark.parametrize("action", ["disconnect", "error:REQUEST_TIMED_OUT"])
def test_the_limit_of_a_topic_is_asked_for_until_it_is_told(broker: Broker, options: SinkOptions, action: str) -> None:
    fault = broker.faults.inject("DescribeConfigs", action, times=2)
    with SinkCluster.open(options) as cluster:
        assert describe_topic(cluster, "out", options.delivery_timeout_ms) == TOPIC
    assert fault.hits == 2


def test_who_may_not_read_the_limit_of_a_topic_gets_kafkas_default(broker: Broker, options: SinkOptions) -> None:
    broker.faults.inject("DescribeConfigs", "error:TOPIC_AUTHORIZATION_FAILED")
    with SinkCluster.open(options) as cluster:
        assert describe_topic(cluster, "out", options.delivery_timeout_ms) == TopicPlan(1)


def test_a_leader_is_waited_for_within_a_batch(broker: Broker, options: SinkOptions) -> None:
    values = [b"%d" % number for number in range(3)]
    rows = (pa.RecordBatch.from_arrays([pa.array([value])], names=["value"]) for value in values)
    encoder = BlockEncoder(EncodePlan(options._replace(batch_size_bytes=1), {"out": TOPIC}, [0]), 0)
    with SinkCluster.open(options) as driver, SinkCluster.open(options) as task:
        transactions = Transactions(driver, options)
        writer = BlockWriter(WritePlan(options, transactions.fence(), {}, frozenset({("out", 0)})), task)
        transactions.add_partitions([("out", 0)])
        fault = broker.faults.inject("Metadata", "error:LEADER_NOT_AVAILABLE", times=ASKED)
        for block in encoder.encode(rows):
            (row,) = block.to_pylist()
            writer.write(row["topic"], row["partition"], row["records"], row["batch"])
        writer.flush()
        transactions.commit()
    assert fault.hits == ASKED
    assert [seen.value for seen in read_topic(options.bootstrap, "out", Isolation.READ_COMMITTED)] == values


def test_partitions_share_a_request_and_are_sent_again_one_by_one(broker: Broker, options: SinkOptions) -> None:
    with SinkCluster.open(options) as driver, SinkCluster.open(options) as task:
        Admin(driver).create_topic("many", partitions=3)
        columns = [pa.array([b"%d" % number for number in range(30)]), pa.array([n % 3 for n in range(30)], pa.int32())]
        rows = pa.RecordBatch.from_arrays(columns, names=["value", "partition"])
        plan = EncodePlan(options._replace(topic="many", batch_size_bytes=20), {"many": TopicPlan(3)}, [0])
        blocks = [block.to_pylist()[0] for block in BlockEncoder(plan, 0).encode(iter([rows]))]
        blocks.sort(key=lambda block: (block["block"], block["partition"]))
        assert len(blocks) > 6
        transactions = Transactions(driver, options)
        every = frozenset(("many", partition) for partition in range(3))
        writer = BlockWriter(WritePlan(options, transactions.fence(), {}, every), task)
        transactions.add_partitions(every)
        # The broker has written the second request, and its answer is lost.
        fault = broker.faults.inject("Produce", "drop-reply", nth=2)
        for block in blocks:
            writer.write(block["topic"], block["partition"], block["records"], block["batch"])
        writer.flush()
        transactions.commit()
        ends = {where: each.offset for where, each in list_offsets(driver, dict.fromkeys(every, LATEST)).items()}
    assert fault.hits == 1
    assert {where: written.records for where, written in writer.written.items()} == dict.fromkeys(every, 10)
    # Behind the records comes the mark of the transaction's end.
    assert {where: written.end_offset + 1 for where, written in writer.written.items()} == ends
    seen = [seen.value or b"" for seen in read_topic(options.bootstrap, "many", Isolation.READ_COMMITTED)]
    assert sorted(map(int, seen)) == list(range(30))
