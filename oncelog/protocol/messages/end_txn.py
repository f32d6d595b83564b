"""EndTxn (key 26): commit or abort; from v5 the answer carries the bumped epoch (KIP-98, KIP-890)."""

from __future__ import annotations

from oncelog.protocol.primitives import Bool, Int16, Int32, Int64, String
from oncelog.protocol.schema import Message, field


class EndTxnRequest(Message, api_key=26, versions="0-5", flexible="3+"):
    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    committed: Bool


class EndTxnResponse(Message, api_key=26, versions="0-5", flexible="3+"):
    throttle_time_ms: Int32
    error_code: Int16
    producer_id: Int64 = field("5+", default=-1)
    producer_epoch: Int16 = field("5+", default=-1)
