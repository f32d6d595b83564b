"""Records of `__transaction_state`, one key per transactional id (KIP-98, KIP-890).

A key begins with the int16 0, its type; a value begins with an int16, its version; no value is a tombstone.
"""

from __future__ import annotations

from oncelog.protocol.primitives import Int8, Int16, Int32, Int64, String
from oncelog.protocol.schema import Message, Struct, field


class TransactionLogKey(Message, api_key=0, versions="0"):
    transactional_id: String


class PartitionsSchema(Struct):
    topic: String
    partition_ids: list[Int32]


class TransactionLogValue(Message, api_key=0, versions="0-1", flexible="1+"):
    producer_id: Int64
    previous_producer_id: Int64 = field("1+", tag=0, default=-1)
    next_producer_id: Int64 = field("1+", tag=1, default=-1)
    producer_epoch: Int16
    next_producer_epoch: Int16 = field("1+", tag=3, default=-1)
    transaction_timeout_ms: Int32
    transaction_status: Int8
    transaction_partitions: list[PartitionsSchema] | None = field(nullable="0+")
    transaction_last_update_timestamp_ms: Int64
    transaction_start_timestamp_ms: Int64
    client_transaction_version: Int16 = field("1+", tag=2)
