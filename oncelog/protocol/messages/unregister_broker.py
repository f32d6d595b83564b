"""UnregisterBroker (key 64): remove a broker for good (KIP-500)."""

from __future__ import annotations

from oncelog.protocol.primitives import Int16, Int32, String
from oncelog.protocol.schema import Message, field


class UnregisterBrokerRequest(Message, api_key=64, versions="0", flexible="0+"):
    broker_id: Int32


class UnregisterBrokerResponse(Message, api_key=64, versions="0", flexible="0+"):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None = field(nullable="0+")
