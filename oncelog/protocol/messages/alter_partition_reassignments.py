"""AlterPartitionReassignments (key 45): start or cancel moves of replicas (KIP-455)."""

from __future__ import annotations

from oncelog.protocol.primitives import Bool, Int16, Int32, String
from oncelog.protocol.schema import Message, Struct, field


class ReassignablePartition(Struct):
    partition_index: Int32
    replicas: list[Int32] | None = field(nullable="0+", default=None)


class ReassignableTopic(Struct):
    name: String
    partitions: list[ReassignablePartition]


class AlterPartitionReassignmentsRequest(Message, api_key=45, versions="0-1", flexible="0+"):
    timeout_ms: Int32 = field(default=60000)
    allow_replication_factor_change: Bool = field("1+", default=True)
    topics: list[ReassignableTopic]


class ReassignablePartitionResponse(Struct):
    partition_index: Int32
    error_code: Int16
    error_message: String | None = field(nullable="0+")


class ReassignableTopicResponse(Struct):
    name: String
    partitions: list[ReassignablePartitionResponse]


class AlterPartitionReassignmentsResponse(Message, api_key=45, versions="0-1", flexible="0+"):
    throttle_time_ms: Int32
    allow_replication_factor_change: Bool = field("1+", default=True)
    error_code: Int16
    error_message: String | None = field(nullable="0+")
    responses: list[ReassignableTopicResponse]
