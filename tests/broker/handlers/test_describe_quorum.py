from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from oncelog.broker.handlers.describe_quorum import handle
from oncelog.broker.metadata.controller import NewTopic
from oncelog.protocol.messages.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData
from tests.broker.handlers.config_services import context_of, over_the_wire
from tests.broker.metadata.images import cluster, with_topics

NOW_MS = 1_700_000_000_000
METADATA = "__cluster_metadata"


def request(*topics: tuple[str, list[int]]) -> DescribeQuorumRequest:
    return DescribeQuorumRequest(
        topics=[
            RequestTopicData(
                topic_name=name, partitions=[RequestPartitionData(partition_index=index) for index in indexes]
            )
            for name, indexes in topics
        ]
    )


def context(version: int = 2) -> Any:
    image = with_topics(cluster(), NewTopic("t"))
    clock = SimpleNamespace(wall_ms=lambda: NOW_MS)
    return context_of(SimpleNamespace(metadata=SimpleNamespace(image=image), clock=clock), version)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_this_node_leads_and_votes_alone(version: int) -> None:
    asking = context(version)
    revision = asking.services.metadata.image.revision
    answer = over_the_wire(handle(request((METADATA, [0])), asking), version)
    assert answer.error_code == 0
    ((partition,),) = (topic.partitions for topic in answer.topics)
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (0, 1, 1)
    assert partition.high_watermark == revision > 0
    assert partition.observers == []
    (voter,) = partition.current_voters
    assert (voter.replica_id, voter.log_end_offset) == (1, revision)
    if version >= 1:
        assert (voter.last_fetch_timestamp, voter.last_caught_up_timestamp) == (NOW_MS, NOW_MS)
    if version >= 2:
        (node,) = answer.nodes
        (listener,) = node.listeners
        assert (node.node_id, listener.name, listener.host, listener.port) == (1, "PLAINTEXT", "127.0.0.1", 9091)


@pytest.mark.parametrize(
    "topics",
    [
        [("t", [0])],
        [(METADATA, [1])],
        [(METADATA, [0, 0])],
        [(METADATA, [0]), (METADATA, [0])],
        [(METADATA, [0]), ("t", [])],
    ],
)
def test_there_is_nothing_else(topics: list[tuple[str, list[int]]]) -> None:
    answer = over_the_wire(handle(request(*topics), context()), 2)
    assert (answer.error_code, answer.nodes) == (0, [])
    assert [
        (topic.topic_name, [part.partition_index for part in topic.partitions]) for topic in answer.topics
    ] == topics
    assert {part.error_code for topic in answer.topics for part in topic.partitions} == {3}


def test_no_topics() -> None:
    answer = over_the_wire(handle(request(), context()), 2)
    assert (answer.error_code, answer.topics) == (0, [])
