"""DescribeAcls (key 29): the access rules that match a filter (KIP-140)."""

from __future__ import annotations

from oncelog.protocol.primitives import Int8, Int16, Int32, String
from oncelog.protocol.schema import Message, Struct, field


class DescribeAclsRequest(Message, api_key=29, versions="1-3", flexible="2+"):
    resource_type_filter: Int8
    resource_name_filter: String | None = field(nullable="0+")
    pattern_type_filter: Int8 = field(default=3)
    principal_filter: String | None = field(nullable="0+")
    host_filter: String | None = field(nullable="0+")
    operation: Int8
    permission_type: Int8


class AclDescription(Struct):
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


class DescribeAclsResource(Struct):
    resource_type: Int8
    resource_name: String
    pattern_type: Int8 = field(default=3)
    acls: list[AclDescription]


class DescribeAclsResponse(Message, api_key=29, versions="1-3", flexible="2+"):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None = field(nullable="0+")
    resources: list[DescribeAclsResource]
