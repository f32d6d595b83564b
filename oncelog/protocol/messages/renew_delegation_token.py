"""RenewDelegationToken (key 39): put off the expiry of a delegation token (KIP-48)."""

from __future__ import annotations

from oncelog.protocol.primitives import Bytes, Int16, Int32, Int64
from oncelog.protocol.schema import Message


class RenewDelegationTokenRequest(Message, api_key=39, versions="1-2", flexible="2+"):
    hmac: Bytes
    renew_period_ms: Int64


class RenewDelegationTokenResponse(Message, api_key=39, versions="1-2", flexible="2+"):
    error_code: Int16
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32
