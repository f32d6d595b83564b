"""SyncGroup (key 14): the leader of a classic group hands out assignments, and each member gets its own."""

from __future__ import annotations

from oncelog.protocol.primitives import Bytes, Int16, Int32, String
from oncelog.protocol.schema import Message, Struct, field


class SyncGroupRequestAssignment(Struct):
    member_id: String
    assignment: Bytes


class SyncGroupRequest(Message, api_key=14, versions="0-5", flexible="4+"):
    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: String | None = field("3+", nullable="3+", default=None)
    protocol_type: String | None = field("5+", nullable="5+", default=None)
    protocol_name: String | None = field("5+", nullable="5+", default=None)
    assignments: list[SyncGroupRequestAssignment]


class SyncGroupResponse(Message, api_key=14, versions="0-5", flexible="4+"):
    throttle_time_ms: Int32 = field("1+")
    error_code: Int16
    protocol_type: String | None = field("5+", nullable="5+", default=None)
    protocol_name: String | None = field("5+", nullable="5+", default=None)
    assignment: Bytes
