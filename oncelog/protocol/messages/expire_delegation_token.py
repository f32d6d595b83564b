"""ExpireDelegationToken (key 40): bring forward the expiry of a delegation token (KIP-48)."""

from __future__ import annotations

from oncelog.protocol.primitives import Bytes, Int16, Int32, Int64
from oncelog.protocol.schema import Message


class ExpireDelegationTokenRequest(Message, api_key=40, versions="1-2", flexible="2+"):
    hmac: Bytes
    expiry_time_period_ms: Int64


class ExpireDelegationTokenResponse(Message, api_key=40, versions="1-2", flexible="2+"):
    error_code: Int16
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32
