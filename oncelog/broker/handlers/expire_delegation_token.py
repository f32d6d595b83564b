"""ExpireDelegationToken (key 40, versions 1-2): end a token, or set when it ends (KIP-48).

A client that has not logged in may not: Kafka, too, answers DELEGATION_TOKEN_REQUEST_NOT_ALLOWED on PLAINTEXT.
"""

from __future__ import annotations

from oncelog.broker.requests.context import RequestContext
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)

_NO_TIME = -1


def handle(_: ExpireDelegationTokenRequest, __: RequestContext) -> ExpireDelegationTokenResponse:
    raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def error_reply(
    _: ExpireDelegationTokenRequest, error: KafkaError, __: RequestContext
) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=_NO_TIME)
