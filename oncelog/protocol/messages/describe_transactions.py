"""DescribeTransactions (key 65): state and partitions of transactional ids (KIP-664)."""

from __future__ import annotations

from oncelog.protocol.primitives import Int16, Int32, Int64, String
from oncelog.protocol.schema import OWN_TAG_FIRST, Message, Struct, field


class DescribeTransactionsRequest(Message, api_key=65, versions="0", flexible="0+"):
    transactional_ids: list[String]


class TopicData(Struct):
    topic: String
    partitions: list[Int32]


class TransactionState(Struct):
    error_code: Int16
    transactional_id: String
    transaction_state: String
    transaction_timeout_ms: Int32
    transaction_start_time_ms: Int64
    producer_id: Int64
    producer_epoch: Int16
    topics: list[TopicData]
    client_address: String | None = field(nullable="0+", tag=OWN_TAG_FIRST, default=None)
    """Who uses the id. This field is Oncelog's own, and empty if the broker has not seen a client since it started."""
    client_id: String | None = field(nullable="0+", tag=OWN_TAG_FIRST + 1, default=None)


class DescribeTransactionsResponse(Message, api_key=65, versions="0", flexible="0+"):
    throttle_time_ms: Int32
    transaction_states: list[TransactionState]
