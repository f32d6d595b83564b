"""FindCoordinator (key 10): the broker of a group or transactional id; several from v4 (KIP-699)."""

from __future__ import annotations

from oncelog.protocol.primitives import Int8, Int16, Int32, String
from oncelog.protocol.schema import Message, Struct, field


class FindCoordinatorRequest(Message, api_key=10, versions="0-6", flexible="3+"):
    key: String = field("0-3")
    key_type: Int8 = field("1+")
    coordinator_keys: list[String] = field("4+")


class Coordinator(Struct):
    key: String
    node_id: Int32
    host: String
    port: Int32
    error_code: Int16
    error_message: String | None = field(nullable="4+")


class FindCoordinatorResponse(Message, api_key=10, versions="0-6", flexible="3+"):
    throttle_time_ms: Int32 = field("1+")
    error_code: Int16 = field("0-3")
    error_message: String | None = field("1-3", nullable="1-3")
    node_id: Int32 = field("0-3")
    host: String = field("0-3")
    port: Int32 = field("0-3")
    coordinators: list[Coordinator] = field("4+")
