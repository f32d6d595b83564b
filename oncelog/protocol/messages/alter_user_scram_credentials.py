"""AlterUserScramCredentials (key 51): set or delete users' SCRAM credentials (KIP-554)."""

from __future__ import annotations

from oncelog.protocol.primitives import Bytes, Int8, Int16, Int32, String
from oncelog.protocol.schema import Message, Struct, field


class ScramCredentialDeletion(Struct):
    name: String
    mechanism: Int8


class ScramCredentialUpsertion(Struct):
    name: String
    mechanism: Int8
    iterations: Int32
    salt: Bytes
    salted_password: Bytes


class AlterUserScramCredentialsRequest(Message, api_key=51, versions="0", flexible="0+"):
    deletions: list[ScramCredentialDeletion]
    upsertions: list[ScramCredentialUpsertion]


class AlterUserScramCredentialsResult(Struct):
    user: String
    error_code: Int16
    error_message: String | None = field(nullable="0+")


class AlterUserScramCredentialsResponse(Message, api_key=51, versions="0", flexible="0+"):
    throttle_time_ms: Int32
    results: list[AlterUserScramCredentialsResult]
