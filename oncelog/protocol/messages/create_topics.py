"""CreateTopics (key 19): create topics with partitions, placement and configuration."""

from __future__ import annotations

from oncelog.protocol.primitives import Bool, Int8, Int16, Int32, String, Uuid
from oncelog.protocol.schema import Message, Struct, field


class CreatableReplicaAssignment(Struct):
    partition_index: Int32
    broker_ids: list[Int32]


class CreatableTopicConfig(Struct):
    name: String
    value: String | None = field(nullable="0+")


class CreatableTopic(Struct):
    name: String
    num_partitions: Int32
    replication_factor: Int16
    assignments: list[CreatableReplicaAssignment]
    configs: list[CreatableTopicConfig]


class CreateTopicsRequest(Message, api_key=19, versions="2-7", flexible="5+"):
    topics: list[CreatableTopic]
    timeout_ms: Int32 = field(default=60000)
    validate_only: Bool


class CreatableTopicConfigs(Struct):
    name: String
    value: String | None = field(nullable="5+")
    read_only: Bool
    config_source: Int8 = field(default=-1)
    is_sensitive: Bool


class CreatableTopicResult(Struct):
    name: String
    topic_id: Uuid = field("7+")
    error_code: Int16
    error_message: String | None = field(nullable="0+")
    topic_config_error_code: Int16 = field("5+", tag=0)
    num_partitions: Int32 = field("5+", default=-1)
    replication_factor: Int16 = field("5+", default=-1)
    configs: list[CreatableTopicConfigs] | None = field("5+", nullable="5+")


class CreateTopicsResponse(Message, api_key=19, versions="2-7", flexible="5+"):
    throttle_time_ms: Int32
    topics: list[CreatableTopicResult]
