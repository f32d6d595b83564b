"""JoinGroup (key 11): enter a classic group's next generation; the leader learns of all members (KIP-394)."""

from __future__ import annotations

from oncelog.protocol.primitives import Bool, Bytes, Int16, Int32, String
from oncelog.protocol.schema import Message, Struct, field


class JoinGroupRequestProtocol(Struct):
    name: String
    metadata: Bytes


class JoinGroupRequest(Message, api_key=11, versions="0-9", flexible="6+"):
    group_id: String
    session_timeout_ms: Int32
    rebalance_timeout_ms: Int32 = field("1+", default=-1)
    member_id: String
    group_instance_id: String | None = field("5+", nullable="5+", default=None)
    protocol_type: String
    protocols: list[JoinGroupRequestProtocol]
    reason: String | None = field("8+", nullable="8+", default=None)


class JoinGroupResponseMember(Struct):
    member_id: String
    group_instance_id: String | None = field("5+", nullable="5+", default=None)
    metadata: Bytes


class JoinGroupResponse(Message, api_key=11, versions="0-9", flexible="6+"):
    throttle_time_ms: Int32 = field("2+")
    error_code: Int16
    generation_id: Int32 = field(default=-1)
    protocol_type: String | None = field("7+", nullable="7+", default=None)
    protocol_name: String | None = field(nullable="7+")
    leader: String
    skip_assignment: Bool = field("9+")
    member_id: String
    members: list[JoinGroupResponseMember]
