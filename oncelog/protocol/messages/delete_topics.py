"""DeleteTopics (key 20): delete topics, by name or from v6 by id (KIP-516)."""

from __future__ import annotations

from oncelog.protocol.primitives import Int16, Int32, String, Uuid
from oncelog.protocol.schema import Message, Struct, field


class DeleteTopicState(Struct):
    name: String | None = field(nullable="6+", default=None)
    topic_id: Uuid


class DeleteTopicsRequest(Message, api_key=20, versions="1-6", flexible="4+"):
    topics: list[DeleteTopicState] = field("6+")
    topic_names: list[String] = field("0-5")
    timeout_ms: Int32


class DeletableTopicResult(Struct):
    name: String | None = field(nullable="6+")
    topic_id: Uuid = field("6+")
    error_code: Int16
    error_message: String | None = field("5+", nullable="5+", default=None)


class DeleteTopicsResponse(Message, api_key=20, versions="1-6", flexible="4+"):
    throttle_time_ms: Int32
    responses: list[DeletableTopicResult]
