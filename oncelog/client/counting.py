"""How many records there are between two offsets, which is not the difference of the offsets.

Markers of transactions and aborted records take offsets but are never delivered, and compaction leaves gaps. To
count records means to read their batches, so callers count only what is small. Only the headers of the batches are
looked at, and all partitions of a broker are read together.
"""

from __future__ import annotations

from collections.abc import Mapping

from oncelog.client.cluster import Cluster, TopicPartition
from oncelog.client.errors import ClientError
from oncelog.client.offsets import Isolation
from oncelog.client.visible import iter_batches
from oncelog.protocol.errors import KafkaError, ProtocolError
from oncelog.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from oncelog.protocol.records.record import iter_records

_FETCH_SIZE_BYTES = 32 * 1024 * 1024
_PARTITION_FETCH_SIZE_BYTES = 1024 * 1024


def count_records(cluster: Cluster, ranges: Mapping[TopicPartition, tuple[int, int]]) -> dict[TopicPartition, int]:
    """The records that a read_committed consumer gets from the first offset of each range up to the second.

    A partition that cannot be read is left out.
    """
    ongoing = {partition: _Count(*range_) for partition, range_ in ranges.items()}
    counts: dict[TopicPartition, int] = {}
    while ongoing:
        counts |= {partition: count.records for partition, count in ongoing.items() if count.is_complete}
        ongoing = {partition: count for partition, count in ongoing.items() if not count.is_complete}
        by_leader: dict[int, dict[TopicPartition, _Count]] = {}
        for partition, count in ongoing.items():
            by_leader.setdefault(cluster.leader_id(*partition), {})[partition] = count
        ongoing = {}
        for leader_id, group in by_leader.items():
            ongoing |= _fetch(cluster, leader_id, group)
    return counts


class _Count:
    """One partition on the way from `position` to `end`."""

    def __init__(self, position: int, end: int) -> None:
        self.position = position
        self.end = end
        self.records = 0

    @property
    def is_complete(self) -> bool:
        return self.position >= self.end

    def take(self, data: PartitionData) -> None:
        for header, batch, visible in iter_batches(data):
            if visible and self.position <= header.base_offset and header.last_offset < self.end:
                self.records += header.record_count
            elif visible:
                self.records += sum(self.position <= record.offset < self.end for record in iter_records(batch))
            self.position = max(self.position, header.last_offset + 1)


def _fetch(cluster: Cluster, leader_id: int, group: dict[TopicPartition, _Count]) -> dict[TopicPartition, _Count]:
    """Returns those that got further."""
    before = {partition: count.position for partition, count in group.items()}
    try:
        answer = cluster.connection(leader_id).send(_request(cluster, group), FetchResponse)
        for topic in answer.responses:
            name = cluster.topic_name(topic.topic_id, topic.topic)
            for data in topic.partitions:
                group[name, data.partition_index].take(data)
    except (ClientError, KafkaError, ProtocolError):
        return {}
    return {partition: count for partition, count in group.items() if count.position > before[partition]}


def _request(cluster: Cluster, group: dict[TopicPartition, _Count]) -> FetchRequest:
    topics: dict[str, FetchTopic] = {}
    for (name, index), count in group.items():
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = FetchTopic(topic=name, topic_id=cluster.topic(name).topic_id, partitions=[])
        topic.partitions.append(
            FetchPartition(
                partition=index, fetch_offset=count.position, partition_max_bytes=_PARTITION_FETCH_SIZE_BYTES
            )
        )
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=_FETCH_SIZE_BYTES,
        isolation_level=Isolation.READ_COMMITTED,
        topics=list(topics.values()),
    )
