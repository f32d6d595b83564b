"""DescribeShareGroupOffsets (key 90): start offsets and lags of share groups (KIP-932, KIP-1226)."""

from __future__ import annotations

from oncelog.protocol.primitives import Int16, Int32, Int64, String, Uuid
from oncelog.protocol.schema import Message, Struct, field


class DescribeShareGroupOffsetsRequestTopic(Struct):
    topic_name: String
    partitions: list[Int32]


class DescribeShareGroupOffsetsRequestGroup(Struct):
    group_id: String
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = field(nullable="0+")


class DescribeShareGroupOffsetsRequest(Message, api_key=90, versions="0-1", flexible="0+"):
    groups: list[DescribeShareGroupOffsetsRequestGroup]


class DescribeShareGroupOffsetsResponsePartition(Struct):
    partition_index: Int32
    start_offset: Int64
    leader_epoch: Int32
    lag: Int64 = field("1+", default=-1)
    error_code: Int16
    error_message: String | None = field(nullable="0+", default=None)


class DescribeShareGroupOffsetsResponseTopic(Struct):
    topic_name: String
    topic_id: Uuid
    partitions: list[DescribeShareGroupOffsetsResponsePartition]


class DescribeShareGroupOffsetsResponseGroup(Struct):
    group_id: String
    topics: list[DescribeShareGroupOffsetsResponseTopic]
    error_code: Int16
    error_message: String | None = field(nullable="0+", default=None)


class DescribeShareGroupOffsetsResponse(Message, api_key=90, versions="0-1", flexible="0+"):
    throttle_time_ms: Int32
    groups: list[DescribeShareGroupOffsetsResponseGroup]
