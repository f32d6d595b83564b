"""AddOffsetsToTxn (key 25): put a group's offsets partition into a transaction (KIP-98)."""

from __future__ import annotations

from oncelog.protocol.primitives import Int16, Int32, Int64, String
from oncelog.protocol.schema import Message


class AddOffsetsToTxnRequest(Message, api_key=25, versions="0-4", flexible="3+"):
    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    group_id: String


class AddOffsetsToTxnResponse(Message, api_key=25, versions="0-4", flexible="3+"):
    throttle_time_ms: Int32
    error_code: Int16
