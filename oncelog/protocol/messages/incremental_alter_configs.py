"""IncrementalAlterConfigs (key 44): set, delete, append to or subtract from single values (KIP-339)."""

from __future__ import annotations

from oncelog.protocol.primitives import Bool, Int8, Int16, Int32, String
from oncelog.protocol.schema import Message, Struct, field


class AlterableConfig(Struct):
    name: String
    config_operation: Int8
    value: String | None = field(nullable="0+")


class AlterConfigsResource(Struct):
    resource_type: Int8
    resource_name: String
    configs: list[AlterableConfig]


class IncrementalAlterConfigsRequest(Message, api_key=44, versions="0-1", flexible="1+"):
    resources: list[AlterConfigsResource]
    validate_only: Bool


class AlterConfigsResourceResponse(Struct):
    error_code: Int16
    error_message: String | None = field(nullable="0+")
    resource_type: Int8
    resource_name: String


class IncrementalAlterConfigsResponse(Message, api_key=44, versions="0-1", flexible="1+"):
    throttle_time_ms: Int32
    responses: list[AlterConfigsResourceResponse]
