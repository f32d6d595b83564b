"""OffsetDelete (key 47): forget a group's positions in partitions that it does not consume (KIP-496)."""

from __future__ import annotations

from oncelog.protocol.primitives import Int16, Int32, String
from oncelog.protocol.schema import Message, Struct


class OffsetDeleteRequestPartition(Struct):
    partition_index: Int32


class OffsetDeleteRequestTopic(Struct):
    name: String
    partitions: list[OffsetDeleteRequestPartition]


class OffsetDeleteRequest(Message, api_key=47, versions="0"):
    group_id: String
    topics: list[OffsetDeleteRequestTopic]


class OffsetDeleteResponsePartition(Struct):
    partition_index: Int32
    error_code: Int16


class OffsetDeleteResponseTopic(Struct):
    name: String
    partitions: list[OffsetDeleteResponsePartition]


class OffsetDeleteResponse(Message, api_key=47, versions="0"):
    error_code: Int16
    throttle_time_ms: Int32
    topics: list[OffsetDeleteResponseTopic]
