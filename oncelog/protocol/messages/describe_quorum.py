"""DescribeQuorum (key 55): leader, voters and observers of the metadata quorum (KIP-595, KIP-836)."""

from __future__ import annotations

from oncelog.protocol.primitives import Int16, Int32, Int64, String, UInt16, Uuid
from oncelog.protocol.schema import Message, Struct, field


class RequestPartitionData(Struct):
    partition_index: Int32


class RequestTopicData(Struct):
    topic_name: String
    partitions: list[RequestPartitionData]


class DescribeQuorumRequest(Message, api_key=55, versions="0-2", flexible="0+"):
    topics: list[RequestTopicData]


class ReplicaState(Struct):
    replica_id: Int32
    replica_directory_id: Uuid = field("2+")
    log_end_offset: Int64
    last_fetch_timestamp: Int64 = field("1+", default=-1)
    last_caught_up_timestamp: Int64 = field("1+", default=-1)


class ResponsePartitionData(Struct):
    partition_index: Int32
    error_code: Int16
    error_message: String | None = field("2+", nullable="2+")
    leader_id: Int32
    leader_epoch: Int32
    high_watermark: Int64
    current_voters: list[ReplicaState]
    observers: list[ReplicaState]


class ResponseTopicData(Struct):
    topic_name: String
    partitions: list[ResponsePartitionData]


class Listener(Struct):
    name: String
    host: String
    port: UInt16


class Node(Struct):
    node_id: Int32
    listeners: list[Listener]


class DescribeQuorumResponse(Message, api_key=55, versions="0-2", flexible="0+"):
    error_code: Int16
    error_message: String | None = field("2+", nullable="2+")
    topics: list[ResponseTopicData]
    nodes: list[Node] = field("2+")
