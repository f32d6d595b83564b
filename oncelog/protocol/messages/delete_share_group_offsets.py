"""DeleteShareGroupOffsets (key 92): forget a share group's offsets in topics (KIP-932)."""

from __future__ import annotations

from oncelog.protocol.primitives import Int16, Int32, String, Uuid
from oncelog.protocol.schema import Message, Struct, field


class DeleteShareGroupOffsetsRequestTopic(Struct):
    topic_name: String


class DeleteShareGroupOffsetsRequest(Message, api_key=92, versions="0", flexible="0+"):
    group_id: String
    topics: list[DeleteShareGroupOffsetsRequestTopic]


class DeleteShareGroupOffsetsResponseTopic(Struct):
    topic_name: String
    topic_id: Uuid
    error_code: Int16
    error_message: String | None = field(nullable="0+", default=None)


class DeleteShareGroupOffsetsResponse(Message, api_key=92, versions="0", flexible="0+"):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None = field(nullable="0+", default=None)
    responses: list[DeleteShareGroupOffsetsResponseTopic]
