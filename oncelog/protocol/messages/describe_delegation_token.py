"""DescribeDelegationToken (key 41): the delegation tokens of given owners (KIP-48)."""

from __future__ import annotations

from oncelog.protocol.primitives import Bytes, Int16, Int32, Int64, String
from oncelog.protocol.schema import Message, Struct, field


class DescribeDelegationTokenOwner(Struct):
    principal_type: String
    principal_name: String


class DescribeDelegationTokenRequest(Message, api_key=41, versions="1-3", flexible="2+"):
    owners: list[DescribeDelegationTokenOwner] | None = field(nullable="0+")


class DescribedDelegationTokenRenewer(Struct):
    principal_type: String
    principal_name: String


class DescribedDelegationToken(Struct):
    principal_type: String
    principal_name: String
    token_requester_principal_type: String = field("3+")
    token_requester_principal_name: String = field("3+")
    issue_timestamp: Int64
    expiry_timestamp: Int64
    max_timestamp: Int64
    token_id: String
    hmac: Bytes
    renewers: list[DescribedDelegationTokenRenewer]


class DescribeDelegationTokenResponse(Message, api_key=41, versions="1-3", flexible="2+"):
    error_code: Int16
    tokens: list[DescribedDelegationToken]
    throttle_time_ms: Int32
