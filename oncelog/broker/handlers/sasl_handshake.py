"""SaslHandshake (key 17, versions 0-1): choose the mechanism of a login (KIP-43).

A PLAINTEXT listener has no login. Like Kafka's, this one answers ILLEGAL_SASL_STATE and offers no mechanism.
"""

from __future__ import annotations

from oncelog.broker.requests.context import RequestContext
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def handle(_: SaslHandshakeRequest, __: RequestContext) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
