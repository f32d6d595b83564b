"""ConsumerGroupHeartbeat (key 68): join, stay in and leave a group whose broker assigns (KIP-848)."""

from __future__ import annotations

from oncelog.protocol.primitives import Int16, Int32, String, Uuid
from oncelog.protocol.schema import Message, Struct, field


class TopicPartitions(Struct):
    topic_id: Uuid
    partitions: list[Int32]


class ConsumerGroupHeartbeatRequest(Message, api_key=68, versions="0-1", flexible="0+"):
    group_id: String
    member_id: String
    member_epoch: Int32
    instance_id: String | None = field(nullable="0+", default=None)
    rack_id: String | None = field(nullable="0+", default=None)
    rebalance_timeout_ms: Int32 = field(default=-1)
    subscribed_topic_names: list[String] | None = field(nullable="0+", default=None)
    subscribed_topic_regex: String | None = field("1+", nullable="1+", default=None)
    server_assignor: String | None = field(nullable="0+", default=None)
    topic_partitions: list[TopicPartitions] | None = field(nullable="0+", default=None)


class Assignment(Struct):
    topic_partitions: list[TopicPartitions]


class ConsumerGroupHeartbeatResponse(Message, api_key=68, versions="0-1", flexible="0+"):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None = field(nullable="0+", default=None)
    member_id: String | None = field(nullable="0+", default=None)
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    assignment: Assignment | None = field(nullable="0+", default=None)
