"""OffsetFetch (key 9): read back a group's positions; several groups at once from v8 (KIP-709)."""

from __future__ import annotations

from oncelog.protocol.primitives import Bool, Int16, Int32, Int64, String, Uuid
from oncelog.protocol.schema import Message, Struct, field


class OffsetFetchRequestTopic(Struct):
    name: String
    partition_indexes: list[Int32]


class OffsetFetchRequestTopics(Struct):
    name: String = field("8-9")
    topic_id: Uuid = field("10+")
    partition_indexes: list[Int32]


class OffsetFetchRequestGroup(Struct):
    group_id: String
    member_id: String | None = field("9+", nullable="9+", default=None)
    member_epoch: Int32 = field("9+", default=-1)
    topics: list[OffsetFetchRequestTopics] | None = field(nullable="8+")


class OffsetFetchRequest(Message, api_key=9, versions="1-10", flexible="6+"):
    group_id: String = field("0-7")
    topics: list[OffsetFetchRequestTopic] | None = field("0-7", nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = field("8+")
    require_stable: Bool = field("7+")


class OffsetFetchResponsePartition(Struct):
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = field("5-7", default=-1)
    metadata: String | None = field(nullable="0-7")
    error_code: Int16


class OffsetFetchResponseTopic(Struct):
    name: String
    partitions: list[OffsetFetchResponsePartition]


class OffsetFetchResponsePartitions(Struct):
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = field(default=-1)
    metadata: String | None = field(nullable="8+")
    error_code: Int16


class OffsetFetchResponseTopics(Struct):
    name: String = field("8-9")
    topic_id: Uuid = field("10+")
    partitions: list[OffsetFetchResponsePartitions]


class OffsetFetchResponseGroup(Struct):
    group_id: String
    topics: list[OffsetFetchResponseTopics]
    error_code: Int16


class OffsetFetchResponse(Message, api_key=9, versions="1-10", flexible="6+"):
    throttle_time_ms: Int32 = field("3+")
    topics: list[OffsetFetchResponseTopic] = field("0-7")
    error_code: Int16 = field("2-7")
    groups: list[OffsetFetchResponseGroup] = field("8+")
