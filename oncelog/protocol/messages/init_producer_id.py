"""InitProducerId (key 22): get a producer id, fencing a transactional id's older ones (KIP-98, KIP-360)."""

from __future__ import annotations

from oncelog.protocol.primitives import Int16, Int32, Int64, String
from oncelog.protocol.schema import Message, field


class InitProducerIdRequest(Message, api_key=22, versions="0-5", flexible="2+"):
    transactional_id: String | None = field(nullable="0+")
    transaction_timeout_ms: Int32
    producer_id: Int64 = field("3+", default=-1)
    producer_epoch: Int16 = field("3+", default=-1)


class InitProducerIdResponse(Message, api_key=22, versions="0-5", flexible="2+"):
    throttle_time_ms: Int32
    error_code: Int16
    producer_id: Int64 = field(default=-1)
    producer_epoch: Int16
