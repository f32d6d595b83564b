"""DescribeConfigs (key 32): configuration of topics, brokers and groups, with origins (KIP-133, KIP-226)."""

from __future__ import annotations

from oncelog.protocol.primitives import Bool, Int8, Int16, Int32, String
from oncelog.protocol.schema import Message, Struct, field


class DescribeConfigsResource(Struct):
    resource_type: Int8
    resource_name: String
    configuration_keys: list[String] | None = field(nullable="0+")


class DescribeConfigsRequest(Message, api_key=32, versions="1-4", flexible="4+"):
    resources: list[DescribeConfigsResource]
    include_synonyms: Bool
    include_documentation: Bool = field("3+")


class DescribeConfigsSynonym(Struct):
    name: String
    value: String | None = field(nullable="0+")
    source: Int8


class DescribeConfigsResourceResult(Struct):
    name: String
    value: String | None = field(nullable="0+")
    read_only: Bool
    config_source: Int8 = field(default=-1)
    is_sensitive: Bool
    synonyms: list[DescribeConfigsSynonym]
    config_type: Int8 = field("3+")
    documentation: String | None = field("3+", nullable="0+")


class DescribeConfigsResult(Struct):
    error_code: Int16
    error_message: String | None = field(nullable="0+")
    resource_type: Int8
    resource_name: String
    configs: list[DescribeConfigsResourceResult]


class DescribeConfigsResponse(Message, api_key=32, versions="1-4", flexible="4+"):
    throttle_time_ms: Int32
    results: list[DescribeConfigsResult]
