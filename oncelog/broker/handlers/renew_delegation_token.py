"""RenewDelegationToken (key 39, versions 1-2): prolong a token (KIP-48).

A client that has not logged in may not: Kafka, too, answers DELEGATION_TOKEN_REQUEST_NOT_ALLOWED on PLAINTEXT.
"""

from __future__ import annotations

from oncelog.broker.requests.context import RequestContext
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

_NO_TIME = -1


def handle(_: RenewDelegationTokenRequest, __: RequestContext) -> RenewDelegationTokenResponse:
    raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def error_reply(_: RenewDelegationTokenRequest, error: KafkaError, __: RequestContext) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=_NO_TIME)
