"""DescribeDelegationToken (key 41, versions 1-3): the tokens of owners (KIP-48).

A client that has not logged in sees none: Kafka, too, answers DELEGATION_TOKEN_REQUEST_NOT_ALLOWED on PLAINTEXT.
"""

from __future__ import annotations

from oncelog.broker.requests.context import RequestContext
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)


def handle(_: DescribeDelegationTokenRequest, __: RequestContext) -> DescribeDelegationTokenResponse:
    raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
