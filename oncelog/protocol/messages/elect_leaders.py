"""ElectLeaders (key 43): make preferred or unclean replicas the leaders of partitions (KIP-183, KIP-460)."""

from __future__ import annotations

from oncelog.protocol.primitives import Int8, Int16, Int32, String
from oncelog.protocol.schema import Message, Struct, field


class TopicPartitions(Struct):
    topic: String
    partitions: list[Int32]


class ElectLeadersRequest(Message, api_key=43, versions="0-2", flexible="2+"):
    election_type: Int8 = field("1+")
    topic_partitions: list[TopicPartitions] | None = field(nullable="0+")
    timeout_ms: Int32 = field(default=60000)


class PartitionResult(Struct):
    partition_id: Int32
    error_code: Int16
    error_message: String | None = field(nullable="0+")


class ReplicaElectionResult(Struct):
    topic: String
    partition_result: list[PartitionResult]


class ElectLeadersResponse(Message, api_key=43, versions="0-2", flexible="2+"):
    throttle_time_ms: Int32
    error_code: Int16 = field("1+")
    replica_election_results: list[ReplicaElectionResult]
