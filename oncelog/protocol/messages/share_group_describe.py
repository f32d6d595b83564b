"""ShareGroupDescribe (key 77): state, members and assignments of share groups (KIP-932)."""

from __future__ import annotations

from oncelog.protocol.messages.sentinels import AUTHORIZED_OPERATIONS_UNSET
from oncelog.protocol.primitives import Bool, Int16, Int32, String, Uuid
from oncelog.protocol.schema import Message, Struct, field


class ShareGroupDescribeRequest(Message, api_key=77, versions="1", flexible="0+"):
    group_ids: list[String]
    include_authorized_operations: Bool


class TopicPartitions(Struct):
    topic_id: Uuid
    topic_name: String
    partitions: list[Int32]


class Assignment(Struct):
    topic_partitions: list[TopicPartitions]


class Member(Struct):
    member_id: String
    rack_id: String | None = field(nullable="0+", default=None)
    member_epoch: Int32
    client_id: String
    client_host: String
    subscribed_topic_names: list[String]
    assignment: Assignment


class DescribedGroup(Struct):
    error_code: Int16
    error_message: String | None = field(nullable="0+", default=None)
    group_id: String
    group_state: String
    group_epoch: Int32
    assignment_epoch: Int32
    assignor_name: String
    members: list[Member]
    authorized_operations: Int32 = field(default=AUTHORIZED_OPERATIONS_UNSET)


class ShareGroupDescribeResponse(Message, api_key=77, versions="1", flexible="0+"):
    throttle_time_ms: Int32
    groups: list[DescribedGroup]
