"""DescribeClientQuotas (key 48): the quotas of users, clients and addresses that match a filter (KIP-546)."""

from __future__ import annotations

from oncelog.protocol.primitives import Bool, Float64, Int8, Int16, Int32, String
from oncelog.protocol.schema import Message, Struct, field


class ComponentData(Struct):
    entity_type: String
    match_type: Int8
    match: String | None = field(nullable="0+")


class DescribeClientQuotasRequest(Message, api_key=48, versions="0-1", flexible="1+"):
    components: list[ComponentData]
    strict: Bool


class EntityData(Struct):
    entity_type: String
    entity_name: String | None = field(nullable="0+")


class ValueData(Struct):
    key: String
    value: Float64


class EntryData(Struct):
    entity: list[EntityData]
    values: list[ValueData]


class DescribeClientQuotasResponse(Message, api_key=48, versions="0-1", flexible="1+"):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None = field(nullable="0+")
    entries: list[EntryData] | None = field(nullable="0+")
