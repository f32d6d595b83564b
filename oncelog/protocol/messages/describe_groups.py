"""DescribeGroups (key 15): state and members of classic groups."""

from __future__ import annotations

from oncelog.protocol.messages.sentinels import AUTHORIZED_OPERATIONS_UNSET
from oncelog.protocol.primitives import Bool, Bytes, Int16, Int32, String
from oncelog.protocol.schema import Message, Struct, field


class DescribeGroupsRequest(Message, api_key=15, versions="0-6", flexible="5+"):
    groups: list[String]
    include_authorized_operations: Bool = field("3+")


class DescribedGroupMember(Struct):
    member_id: String
    group_instance_id: String | None = field("4+", nullable="4+", default=None)
    client_id: String
    client_host: String
    member_metadata: Bytes
    member_assignment: Bytes


class DescribedGroup(Struct):
    error_code: Int16
    error_message: String | None = field("6+", nullable="6+", default=None)
    group_id: String
    group_state: String
    protocol_type: String
    protocol_data: String
    members: list[DescribedGroupMember]
    authorized_operations: Int32 = field("3+", default=AUTHORIZED_OPERATIONS_UNSET)


class DescribeGroupsResponse(Message, api_key=15, versions="0-6", flexible="5+"):
    throttle_time_ms: Int32 = field("1+")
    groups: list[DescribedGroup]
