"""ShareGroupHeartbeat (key 76): join, stay in, and leave a share group (KIP-932)."""

from __future__ import annotations

from oncelog.protocol.primitives import Int16, Int32, String, Uuid
from oncelog.protocol.schema import Message, Struct, field


class ShareGroupHeartbeatRequest(Message, api_key=76, versions="1", flexible="0+"):
    group_id: String
    member_id: String
    member_epoch: Int32
    rack_id: String | None = field(nullable="0+", default=None)
    subscribed_topic_names: list[String] | None = field(nullable="0+", default=None)


class TopicPartitions(Struct):
    topic_id: Uuid
    partitions: list[Int32]


class Assignment(Struct):
    topic_partitions: list[TopicPartitions]


class ShareGroupHeartbeatResponse(Message, api_key=76, versions="1", flexible="0+"):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None = field(nullable="0+", default=None)
    member_id: String | None = field(nullable="0+", default=None)
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    assignment: Assignment | None = field(nullable="0+", default=None)
