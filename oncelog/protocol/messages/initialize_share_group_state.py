"""InitializeShareGroupState (key 83): begin the persistent state of share partitions (KIP-932)."""

from __future__ import annotations

from oncelog.protocol.primitives import Int16, Int32, Int64, String, Uuid
from oncelog.protocol.schema import Message, Struct, field


class PartitionData(Struct):
    partition: Int32
    state_epoch: Int32
    start_offset: Int64


class InitializeStateData(Struct):
    topic_id: Uuid
    partitions: list[PartitionData]


class InitializeShareGroupStateRequest(Message, api_key=83, versions="0", flexible="0+"):
    group_id: String
    topics: list[InitializeStateData]


class PartitionResult(Struct):
    partition: Int32
    error_code: Int16
    error_message: String | None = field(nullable="0+", default=None)


class InitializeStateResult(Struct):
    topic_id: Uuid
    partitions: list[PartitionResult]


class InitializeShareGroupStateResponse(Message, api_key=83, versions="0", flexible="0+"):
    results: list[InitializeStateResult]
