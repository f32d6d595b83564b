"""OffsetForLeaderEpoch (key 23): where a leader epoch ended, to find where logs part (KIP-101, KIP-320)."""

from __future__ import annotations

from oncelog.protocol.primitives import Int16, Int32, Int64, String
from oncelog.protocol.schema import Message, Struct, field


class OffsetForLeaderPartition(Struct):
    partition: Int32
    current_leader_epoch: Int32 = field(default=-1)
    leader_epoch: Int32


class OffsetForLeaderTopic(Struct):
    topic: String
    partitions: list[OffsetForLeaderPartition]


class OffsetForLeaderEpochRequest(Message, api_key=23, versions="2-4", flexible="4+"):
    replica_id: Int32 = field("3+", default=-2)
    topics: list[OffsetForLeaderTopic]


class EpochEndOffset(Struct):
    error_code: Int16
    partition: Int32
    leader_epoch: Int32 = field(default=-1)
    end_offset: Int64 = field(default=-1)


class OffsetForLeaderTopicResult(Struct):
    topic: String
    partitions: list[EpochEndOffset]


class OffsetForLeaderEpochResponse(Message, api_key=23, versions="2-4", flexible="4+"):
    throttle_time_ms: Int32
    topics: list[OffsetForLeaderTopicResult]
