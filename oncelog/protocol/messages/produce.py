"""Produce (key 0): append record batches to partitions; no answer when acks is 0 (topic ids: KIP-516)."""

from __future__ import annotations

from oncelog.protocol.primitives import Int16, Int32, Int64, Records, String, Uuid
from oncelog.protocol.schema import Message, Struct, field


class PartitionProduceData(Struct):
    index: Int32
    records: Records | None = field(nullable="0+")


class TopicProduceData(Struct):
    name: String = field("0-12")
    topic_id: Uuid = field("13+")
    partition_data: list[PartitionProduceData]


class ProduceRequest(Message, api_key=0, versions="3-13", flexible="9+"):
    transactional_id: String | None = field(nullable="3+", default=None)
    acks: Int16
    timeout_ms: Int32
    topic_data: list[TopicProduceData]


class BatchIndexAndErrorMessage(Struct):
    batch_index: Int32
    batch_index_error_message: String | None = field(nullable="8+", default=None)


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = field(default=-1)
    leader_epoch: Int32 = field(default=-1)


class PartitionProduceResponse(Struct):
    index: Int32
    error_code: Int16
    base_offset: Int64
    log_append_time_ms: Int64 = field(default=-1)
    log_start_offset: Int64 = field("5+", default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = field("8+")
    error_message: String | None = field("8+", nullable="8+", default=None)
    current_leader: LeaderIdAndEpoch = field("10+", tag=0)


class TopicProduceResponse(Struct):
    name: String = field("0-12")
    topic_id: Uuid = field("13+")
    partition_responses: list[PartitionProduceResponse]


class NodeEndpoint(Struct):
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = field(nullable="10+", default=None)


class ProduceResponse(Message, api_key=0, versions="3-13", flexible="9+"):
    responses: list[TopicProduceResponse]
    throttle_time_ms: Int32
    node_endpoints: list[NodeEndpoint] = field("10+", tag=0)
