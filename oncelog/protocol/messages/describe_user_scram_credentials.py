"""DescribeUserScramCredentials (key 50): mechanisms and iterations of users' SCRAM credentials (KIP-554)."""

from __future__ import annotations

from oncelog.protocol.primitives import Int8, Int16, Int32, String
from oncelog.protocol.schema import Message, Struct, field


class UserName(Struct):
    name: String


class DescribeUserScramCredentialsRequest(Message, api_key=50, versions="0", flexible="0+"):
    users: list[UserName] | None = field(nullable="0+")


class CredentialInfo(Struct):
    mechanism: Int8
    iterations: Int32


class DescribeUserScramCredentialsResult(Struct):
    user: String
    error_code: Int16
    error_message: String | None = field(nullable="0+")
    credential_infos: list[CredentialInfo]


class DescribeUserScramCredentialsResponse(Message, api_key=50, versions="0", flexible="0+"):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None = field(nullable="0+")
    results: list[DescribeUserScramCredentialsResult]
