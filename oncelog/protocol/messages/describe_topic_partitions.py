"""DescribeTopicPartitions (key 75): topics page by page, with eligible leader replicas (KIP-966)."""

from __future__ import annotations

from oncelog.protocol.messages.sentinels import AUTHORIZED_OPERATIONS_UNSET
from oncelog.protocol.primitives import Bool, Int16, Int32, String, Uuid
from oncelog.protocol.schema import Message, Struct, field


class TopicRequest(Struct):
    name: String


class Cursor(Struct):
    topic_name: String
    partition_index: Int32


class DescribeTopicPartitionsRequest(Message, api_key=75, versions="0", flexible="0+"):
    topics: list[TopicRequest]
    response_partition_limit: Int32 = field(default=2000)
    cursor: Cursor | None = field(nullable="0+", default=None)


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: Int16
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32 = field(default=-1)
    replica_nodes: list[Int32]
    isr_nodes: list[Int32]
    eligible_leader_replicas: list[Int32] | None = field(nullable="0+", default=None)
    last_known_elr: list[Int32] | None = field(nullable="0+", default=None)
    offline_replicas: list[Int32]


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: Int16
    name: String | None = field(nullable="0+")
    topic_id: Uuid
    is_internal: Bool
    partitions: list[DescribeTopicPartitionsResponsePartition]
    topic_authorized_operations: Int32 = field(default=AUTHORIZED_OPERATIONS_UNSET)


class DescribeTopicPartitionsResponse(Message, api_key=75, versions="0", flexible="0+"):
    throttle_time_ms: Int32
    topics: list[DescribeTopicPartitionsResponseTopic]
    next_cursor: Cursor | None = field(nullable="0+", default=None)
