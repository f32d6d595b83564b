"""SaslAuthenticate (key 36): one step of a SASL exchange, and the life of its session (KIP-152, KIP-368)."""

from __future__ import annotations

from oncelog.protocol.primitives import Bytes, Int16, Int64, String
from oncelog.protocol.schema import Message, field


class SaslAuthenticateRequest(Message, api_key=36, versions="0-2", flexible="2+"):
    auth_bytes: Bytes


class SaslAuthenticateResponse(Message, api_key=36, versions="0-2", flexible="2+"):
    error_code: Int16
    error_message: String | None = field(nullable="0+")
    auth_bytes: Bytes
    session_lifetime_ms: Int64 = field("1+")
