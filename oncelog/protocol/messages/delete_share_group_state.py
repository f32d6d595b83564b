"""DeleteShareGroupState (key 86): end the persistent state of share partitions (KIP-932)."""

from __future__ import annotations

from oncelog.protocol.primitives import Int16, Int32, String, Uuid
from oncelog.protocol.schema import Message, Struct, field


class PartitionData(Struct):
    partition: Int32


class DeleteStateData(Struct):
    topic_id: Uuid
    partitions: list[PartitionData]


class DeleteShareGroupStateRequest(Message, api_key=86, versions="0", flexible="0+"):
    group_id: String
    topics: list[DeleteStateData]


class PartitionResult(Struct):
    partition: Int32
    error_code: Int16
    error_message: String | None = field(nullable="0+", default=None)


class DeleteStateResult(Struct):
    topic_id: Uuid
    partitions: list[PartitionResult]


class DeleteShareGroupStateResponse(Message, api_key=86, versions="0", flexible="0+"):
    results: list[DeleteStateResult]
