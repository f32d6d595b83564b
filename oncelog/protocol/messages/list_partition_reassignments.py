"""ListPartitionReassignments (key 46): the moves of replicas under way (KIP-455)."""

from __future__ import annotations

from oncelog.protocol.primitives import Int16, Int32, String
from oncelog.protocol.schema import Message, Struct, field


class ListPartitionReassignmentsTopics(Struct):
    name: String
    partition_indexes: list[Int32]


class ListPartitionReassignmentsRequest(Message, api_key=46, versions="0", flexible="0+"):
    timeout_ms: Int32 = field(default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = field(nullable="0+", default=None)


class OngoingPartitionReassignment(Struct):
    partition_index: Int32
    replicas: list[Int32]
    adding_replicas: list[Int32]
    removing_replicas: list[Int32]


class OngoingTopicReassignment(Struct):
    name: String
    partitions: list[OngoingPartitionReassignment]


class ListPartitionReassignmentsResponse(Message, api_key=46, versions="0", flexible="0+"):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None = field(nullable="0+")
    topics: list[OngoingTopicReassignment]
