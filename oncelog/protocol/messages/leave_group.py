"""LeaveGroup (key 13): members leave a classic group; several static ones at once from v3 (KIP-345)."""

from __future__ import annotations

from oncelog.protocol.primitives import Int16, Int32, String
from oncelog.protocol.schema import Message, Struct, field


class MemberIdentity(Struct):
    member_id: String
    group_instance_id: String | None = field(nullable="3+", default=None)
    reason: String | None = field("5+", nullable="5+", default=None)


class LeaveGroupRequest(Message, api_key=13, versions="0-5", flexible="4+"):
    group_id: String
    member_id: String = field("0-2")
    members: list[MemberIdentity] = field("3+")


class MemberResponse(Struct):
    member_id: String
    group_instance_id: String | None = field(nullable="3+")
    error_code: Int16


class LeaveGroupResponse(Message, api_key=13, versions="0-5", flexible="4+"):
    throttle_time_ms: Int32 = field("1+")
    error_code: Int16
    members: list[MemberResponse] = field("3+")
