"""DeleteGroups (key 42): delete empty groups with their offsets (KIP-229)."""

from __future__ import annotations

from oncelog.protocol.primitives import Int16, Int32, String
from oncelog.protocol.schema import Message, Struct


class DeleteGroupsRequest(Message, api_key=42, versions="0-2", flexible="2+"):
    groups_names: list[String]


class DeletableGroupResult(Struct):
    group_id: String
    error_code: Int16


class DeleteGroupsResponse(Message, api_key=42, versions="0-2", flexible="2+"):
    throttle_time_ms: Int32
    results: list[DeletableGroupResult]
