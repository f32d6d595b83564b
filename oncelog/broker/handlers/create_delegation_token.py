"""CreateDelegationToken (key 38, versions 1-3): a token that stands for its owner in logins (KIP-48, KIP-373).

A client that has not logged in gets none: Kafka, too, answers DELEGATION_TOKEN_REQUEST_NOT_ALLOWED on PLAINTEXT.
"""

from __future__ import annotations

from oncelog.broker.requests.context import RequestContext
from oncelog.broker.requests.quotas import ANONYMOUS
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)

_NO_TIME = -1
_USER = "User"


def handle(_: CreateDelegationTokenRequest, __: RequestContext) -> CreateDelegationTokenResponse:
    raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def error_reply(
    request: CreateDelegationTokenRequest, error: KafkaError, _: RequestContext
) -> CreateDelegationTokenResponse:
    owner_type, owner_name = request.owner_principal_type, request.owner_principal_name
    if owner_type is None or not owner_name:
        owner_type, owner_name = _USER, ANONYMOUS
    return CreateDelegationTokenResponse(
        error_code=error.code,
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=_USER,
        token_requester_principal_name=ANONYMOUS,
        issue_timestamp_ms=_NO_TIME,
        expiry_timestamp_ms=_NO_TIME,
        max_timestamp_ms=_NO_TIME,
    )
