"""Heartbeat (key 12): a member of a classic group is alive, and learns of a rebalance."""

from __future__ import annotations

from oncelog.protocol.primitives import Int16, Int32, String
from oncelog.protocol.schema import Message, field


class HeartbeatRequest(Message, api_key=12, versions="0-4", flexible="4+"):
    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: String | None = field("3+", nullable="3+", default=None)


class HeartbeatResponse(Message, api_key=12, versions="0-4", flexible="4+"):
    throttle_time_ms: Int32 = field("1+")
    error_code: Int16
