"""OffsetCommit (key 8): store a group's positions (KIP-848 member epochs from v9, topic ids from v10)."""

from __future__ import annotations

from oncelog.protocol.primitives import Int16, Int32, Int64, String, Uuid
from oncelog.protocol.schema import Message, Struct, field


class OffsetCommitRequestPartition(Struct):
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = field("6+", default=-1)
    committed_metadata: String | None = field(nullable="0+")


class OffsetCommitRequestTopic(Struct):
    name: String = field("0-9")
    topic_id: Uuid = field("10+")
    partitions: list[OffsetCommitRequestPartition]


class OffsetCommitRequest(Message, api_key=8, versions="2-10", flexible="8+"):
    group_id: String
    generation_id_or_member_epoch: Int32 = field(default=-1)
    member_id: String
    group_instance_id: String | None = field("7+", nullable="7+", default=None)
    retention_time_ms: Int64 = field("2-4", default=-1)
    topics: list[OffsetCommitRequestTopic]


class OffsetCommitResponsePartition(Struct):
    partition_index: Int32
    error_code: Int16


class OffsetCommitResponseTopic(Struct):
    name: String = field("0-9")
    topic_id: Uuid = field("10+")
    partitions: list[OffsetCommitResponsePartition]


class OffsetCommitResponse(Message, api_key=8, versions="2-10", flexible="8+"):
    throttle_time_ms: Int32 = field("3+")
    topics: list[OffsetCommitResponseTopic]
