"""ListConfigResources (key 74): names of the resources that have configurations (KIP-714, KIP-1142)."""

from __future__ import annotations

from oncelog.protocol.primitives import Int8, Int16, Int32, String
from oncelog.protocol.schema import Message, Struct, field


class ListConfigResourcesRequest(Message, api_key=74, versions="0-1", flexible="0+"):
    resource_types: list[Int8] = field("1+")


class ConfigResource(Struct):
    resource_name: String
    resource_type: Int8 = field("1+", default=16)


class ListConfigResourcesResponse(Message, api_key=74, versions="0-1", flexible="0+"):
    throttle_time_ms: Int32
    error_code: Int16
    config_resources: list[ConfigResource]
