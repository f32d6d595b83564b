"""CreatePartitions (key 37): give topics more partitions (KIP-195)."""

from __future__ import annotations

from oncelog.protocol.primitives import Bool, Int16, Int32, String
from oncelog.protocol.schema import Message, Struct, field


class CreatePartitionsAssignment(Struct):
    broker_ids: list[Int32]


class CreatePartitionsTopic(Struct):
    name: String
    count: Int32
    assignments: list[CreatePartitionsAssignment] | None = field(nullable="0+")


class CreatePartitionsRequest(Message, api_key=37, versions="0-3", flexible="2+"):
    topics: list[CreatePartitionsTopic]
    timeout_ms: Int32
    validate_only: Bool


class CreatePartitionsTopicResult(Struct):
    name: String
    error_code: Int16
    error_message: String | None = field(nullable="0+", default=None)


class CreatePartitionsResponse(Message, api_key=37, versions="0-3", flexible="2+"):
    throttle_time_ms: Int32
    results: list[CreatePartitionsTopicResult]
