"""ListOffsets for many partitions at once, each asked of its leader."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from oncelog.client.cluster import Cluster, TopicPartition
from oncelog.client.errors import known_code
from oncelog.named_tuple import NamedTuple
from oncelog.protocol.errors import KafkaError
from oncelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LATEST = -1
EARLIEST = -2
_CONSUMER = -1


class Isolation(IntEnum):
    """What a consumer sees of transactions (KIP-98)."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class OffsetAndTimestamp(NamedTuple):
    offset: int
    timestamp: int


def list_offsets(
    cluster: Cluster,
    timestamps: Mapping[TopicPartition, int],
    *,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """The first offset at or after each timestamp (-1 if there is none), or EARLIEST or LATEST."""
    return cluster.retry(lambda: _list_offsets(cluster, timestamps, isolation))


def _list_offsets(
    cluster: Cluster, timestamps: Mapping[TopicPartition, int], isolation: Isolation
) -> dict[TopicPartition, OffsetAndTimestamp]:
    by_leader: dict[int, dict[str, list[ListOffsetsPartition]]] = {}
    for (topic, partition), timestamp in timestamps.items():
        topics = by_leader.setdefault(cluster.leader_id(topic, partition), {})
        topics.setdefault(topic, []).append(ListOffsetsPartition(partition_index=partition, timestamp=timestamp))
    pending = [
        cluster.connection(leader).begin(
            ListOffsetsRequest(
                replica_id=_CONSUMER,
                isolation_level=isolation,
                topics=[ListOffsetsTopic(name=name, partitions=parts) for name, parts in topics.items()],
                timeout_ms=cluster.timeout_ms,
            ),
            ListOffsetsResponse,
        )
        for leader, topics in by_leader.items()
    ]
    found: dict[TopicPartition, OffsetAndTimestamp] = {}
    for answer in [each.wait() for each in pending]:
        for topic_answer in answer.topics:
            for partition_answer in topic_answer.partitions:
                if partition_answer.error_code:
                    cluster.forget(topic_answer.name)
                    where = f"offsets of {topic_answer.name}-{partition_answer.partition_index}"
                    raise KafkaError(known_code(partition_answer.error_code), where)
                found[topic_answer.name, partition_answer.partition_index] = OffsetAndTimestamp(
                    partition_answer.offset, partition_answer.timestamp
                )
    return found
