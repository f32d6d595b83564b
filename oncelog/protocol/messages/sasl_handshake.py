"""SaslHandshake (key 17): choose a mechanism before SaslAuthenticate (KIP-43)."""

from __future__ import annotations

from oncelog.protocol.primitives import Int16, String
from oncelog.protocol.schema import Message


class SaslHandshakeRequest(Message, api_key=17, versions="0-1"):
    mechanism: String


class SaslHandshakeResponse(Message, api_key=17, versions="0-1"):
    error_code: Int16
    mechanisms: list[String]
