"""AlterConfigs (key 33): replace the whole configuration of resources (KIP-133); superseded by key 44."""

from __future__ import annotations

from oncelog.protocol.primitives import Bool, Int8, Int16, Int32, String
from oncelog.protocol.schema import Message, Struct, field


class AlterableConfig(Struct):
    name: String
    value: String | None = field(nullable="0+")


class AlterConfigsResource(Struct):
    resource_type: Int8
    resource_name: String
    configs: list[AlterableConfig]


class AlterConfigsRequest(Message, api_key=33, versions="0-2", flexible="2+"):
    resources: list[AlterConfigsResource]
    validate_only: Bool


class AlterConfigsResourceResponse(Struct):
    error_code: Int16
    error_message: String | None = field(nullable="0+")
    resource_type: Int8
    resource_name: String


class AlterConfigsResponse(Message, api_key=33, versions="0-2", flexible="2+"):
    throttle_time_ms: Int32
    responses: list[AlterConfigsResourceResponse]
