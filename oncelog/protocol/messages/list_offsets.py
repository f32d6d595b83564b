"""ListOffsets (key 2): the offset of a timestamp, or of the start or end of a partition (KIP-79)."""

from __future__ import annotations

from oncelog.protocol.primitives import Int8, Int16, Int32, Int64, String
from oncelog.protocol.schema import Message, Struct, field


class ListOffsetsPartition(Struct):
    partition_index: Int32
    current_leader_epoch: Int32 = field("4+", default=-1)
    timestamp: Int64


class ListOffsetsTopic(Struct):
    name: String
    partitions: list[ListOffsetsPartition]


class ListOffsetsRequest(Message, api_key=2, versions="1-11", flexible="6+"):
    replica_id: Int32
    isolation_level: Int8 = field("2+")
    topics: list[ListOffsetsTopic]
    timeout_ms: Int32 = field("10+")


class ListOffsetsPartitionResponse(Struct):
    partition_index: Int32
    error_code: Int16
    timestamp: Int64 = field(default=-1)
    offset: Int64 = field(default=-1)
    leader_epoch: Int32 = field("4+", default=-1)


class ListOffsetsTopicResponse(Struct):
    name: String
    partitions: list[ListOffsetsPartitionResponse]


class ListOffsetsResponse(Message, api_key=2, versions="1-11", flexible="6+"):
    throttle_time_ms: Int32 = field("2+")
    topics: list[ListOffsetsTopicResponse]
