"""AlterClientQuotas (key 49): set or remove quotas of users, clients and addresses (KIP-546)."""

from __future__ import annotations

from oncelog.protocol.primitives import Bool, Float64, Int16, Int32, String
from oncelog.protocol.schema import Message, Struct, field


class EntityData(Struct):
    entity_type: String
    entity_name: String | None = field(nullable="0+")


class OpData(Struct):
    key: String
    value: Float64
    remove: Bool


class RequestEntryData(Struct):
    entity: list[EntityData]
    ops: list[OpData]


class AlterClientQuotasRequest(Message, api_key=49, versions="0-1", flexible="1+"):
    entries: list[RequestEntryData]
    validate_only: Bool


class ResponseEntryData(Struct):
    error_code: Int16
    error_message: String | None = field(nullable="0+")
    entity: list[EntityData]


class AlterClientQuotasResponse(Message, api_key=49, versions="0-1", flexible="1+"):
    throttle_time_ms: Int32
    entries: list[ResponseEntryData]
