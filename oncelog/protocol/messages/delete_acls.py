"""DeleteAcls (key 31): remove the access rules that match filters (KIP-140)."""

from __future__ import annotations

from oncelog.protocol.primitives import Int8, Int16, Int32, String
from oncelog.protocol.schema import Message, Struct, field


class DeleteAclsFilter(Struct):
    resource_type_filter: Int8
    resource_name_filter: String | None = field(nullable="0+")
    pattern_type_filter: Int8 = field(default=3)
    principal_filter: String | None = field(nullable="0+")
    host_filter: String | None = field(nullable="0+")
    operation: Int8
    permission_type: Int8


class DeleteAclsRequest(Message, api_key=31, versions="1-3", flexible="2+"):
    filters: list[DeleteAclsFilter]


class DeleteAclsMatchingAcl(Struct):
    error_code: Int16
    error_message: String | None = field(nullable="0+")
    resource_type: Int8
    resource_name: String
    pattern_type: Int8 = field(default=3)
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


class DeleteAclsFilterResult(Struct):
    error_code: Int16
    error_message: String | None = field(nullable="0+")
    matching_acls: list[DeleteAclsMatchingAcl]


class DeleteAclsResponse(Message, api_key=31, versions="1-3", flexible="2+"):
    throttle_time_ms: Int32
    filter_results: list[DeleteAclsFilterResult]
