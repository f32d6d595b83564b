"""DescribeProducers (key 61): the producers that partitions remember and their transactions (KIP-664)."""

from __future__ import annotations

from oncelog.protocol.primitives import Int16, Int32, Int64, String
from oncelog.protocol.schema import Message, Struct, field


class TopicRequest(Struct):
    name: String
    partition_indexes: list[Int32]


class DescribeProducersRequest(Message, api_key=61, versions="0", flexible="0+"):
    topics: list[TopicRequest]


class ProducerState(Struct):
    producer_id: Int64
    producer_epoch: Int32
    last_sequence: Int32 = field(default=-1)
    last_timestamp: Int64 = field(default=-1)
    coordinator_epoch: Int32
    current_txn_start_offset: Int64 = field(default=-1)


class PartitionResponse(Struct):
    partition_index: Int32
    error_code: Int16
    error_message: String | None = field(nullable="0+", default=None)
    active_producers: list[ProducerState]


class TopicResponse(Struct):
    name: String
    partitions: list[PartitionResponse]


class DescribeProducersResponse(Message, api_key=61, versions="0", flexible="0+"):
    throttle_time_ms: Int32
    topics: list[TopicResponse]
