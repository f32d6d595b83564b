"""SaslAuthenticate (key 36, versions 0-2): one step of a login (KIP-152).

A PLAINTEXT listener has no login. Like Kafka's, this one answers ILLEGAL_SASL_STATE.
"""

from __future__ import annotations

from oncelog.broker.requests.context import RequestContext
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


def handle(_: SaslAuthenticateRequest, context: RequestContext) -> SaslAuthenticateResponse:
    raise KafkaError(
        ErrorCode.ILLEGAL_SASL_STATE,
        "SaslAuthenticate request received after successful authentication: the listener"
        f" {context.peer.listener_name} has no login. Set security.protocol=PLAINTEXT in the client.",
    )
