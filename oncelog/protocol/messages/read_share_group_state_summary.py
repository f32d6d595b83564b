"""ReadShareGroupStateSummary (key 87): the start offsets of share partitions (KIP-932)."""

from __future__ import annotations

from oncelog.protocol.primitives import Int16, Int32, Int64, String, Uuid
from oncelog.protocol.schema import Message, Struct, field


class PartitionData(Struct):
    partition: Int32
    leader_epoch: Int32


class ReadStateSummaryData(Struct):
    topic_id: Uuid
    partitions: list[PartitionData]


class ReadShareGroupStateSummaryRequest(Message, api_key=87, versions="0-1", flexible="0+"):
    group_id: String
    topics: list[ReadStateSummaryData]


class PartitionResult(Struct):
    partition: Int32
    error_code: Int16
    error_message: String | None = field(nullable="0+", default=None)
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Int32 = field("1+", default=-1)


class ReadStateSummaryResult(Struct):
    topic_id: Uuid
    partitions: list[PartitionResult]


class ReadShareGroupStateSummaryResponse(Message, api_key=87, versions="0-1", flexible="0+"):
    results: list[ReadStateSummaryResult]
