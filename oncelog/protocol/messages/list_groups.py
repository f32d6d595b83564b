"""ListGroups (key 16): the groups that a broker coordinates, by state and type (KIP-518, KIP-848)."""

from __future__ import annotations

from oncelog.protocol.primitives import Int16, Int32, String
from oncelog.protocol.schema import Message, Struct, field


class ListGroupsRequest(Message, api_key=16, versions="0-5", flexible="3+"):
    states_filter: list[String] = field("4+")
    types_filter: list[String] = field("5+")


class ListedGroup(Struct):
    group_id: String
    protocol_type: String
    group_state: String = field("4+")
    group_type: String = field("5+")


class ListGroupsResponse(Message, api_key=16, versions="0-5", flexible="3+"):
    throttle_time_ms: Int32 = field("1+")
    error_code: Int16
    groups: list[ListedGroup]
