"""Records of `__consumer_offsets` for classic and consumer groups (KIP-848 from type 3 on).

A record's key begins with an int16 that is the type, `API_KEY` here, and goes on with the key's version 0.
Its value begins with an int16 that is the value's version; no value is a tombstone. Types 0 (before Kafka
0.9) and 4 (before Kafka 4.1) are read but no longer written.
"""

from __future__ import annotations

from oncelog.protocol.primitives import Bytes, Int8, Int32, Int64, String, Uuid
from oncelog.protocol.schema import Message, Struct, field


class LegacyOffsetCommitKey(Message, api_key=0, versions="0"):
    group: String
    topic: String
    partition: Int32


class LegacyOffsetCommitValue(Message, api_key=0, versions="0"):
    offset: Int64
    metadata: String
    commit_timestamp: Int64


class OffsetCommitKey(Message, api_key=1, versions="0"):
    group: String
    topic: String
    partition: Int32


class OffsetCommitValue(Message, api_key=1, versions="0-4", flexible="4+"):
    offset: Int64
    leader_epoch: Int32 = field("3+", default=-1)
    metadata: String
    commit_timestamp: Int64
    expire_timestamp: Int64 = field("1", default=-1)
    topic_id: Uuid = field("4+", tag=0)


class GroupMetadataKey(Message, api_key=2, versions="0"):
    group: String


class MemberMetadata(Struct):
    member_id: String
    group_instance_id: String | None = field("3+", nullable="3+", default=None)
    client_id: String
    client_host: String
    rebalance_timeout: Int32 = field("1+", default=-1)
    session_timeout: Int32
    subscription: Bytes
    assignment: Bytes


class GroupMetadataValue(Message, api_key=2, versions="0-4", flexible="4+"):
    protocol_type: String
    generation: Int32
    protocol: String | None = field(nullable="0+")
    leader: String | None = field(nullable="0+")
    current_state_timestamp: Int64 = field("2+", default=-1)
    members: list[MemberMetadata]


class ConsumerGroupMetadataKey(Message, api_key=3, versions="0"):
    group_id: String


class ConsumerGroupMetadataValue(Message, api_key=3, versions="0", flexible="0+"):
    epoch: Int32
    metadata_hash: Int64 = field(tag=0)


class ConsumerGroupPartitionMetadataKey(Message, api_key=4, versions="0"):
    group_id: String


class PartitionMetadata(Struct):
    partition: Int32
    racks: list[String]


class TopicMetadata(Struct):
    topic_id: Uuid
    topic_name: String
    num_partitions: Int32
    partition_metadata: list[PartitionMetadata]


class ConsumerGroupPartitionMetadataValue(Message, api_key=4, versions="0", flexible="0+"):
    topics: list[TopicMetadata]


class ConsumerGroupMemberMetadataKey(Message, api_key=5, versions="0"):
    group_id: String
    member_id: String


class ClassicProtocol(Struct):
    name: String
    metadata: Bytes


class ClassicMemberMetadata(Struct):
    session_timeout_ms: Int32
    supported_protocols: list[ClassicProtocol]


class ConsumerGroupMemberMetadataValue(Message, api_key=5, versions="0", flexible="0+"):
    instance_id: String | None = field(nullable="0+")
    rack_id: String | None = field(nullable="0+")
    client_id: String
    client_host: String
    subscribed_topic_names: list[String]
    subscribed_topic_regex: String | None = field(nullable="0+")
    rebalance_timeout_ms: Int32 = field(default=-1)
    server_assignor: String | None = field(nullable="0+")
    # Kafka's default is an empty struct, so a member of the new protocol is written with an explicit null.
    classic_member_metadata: ClassicMemberMetadata | None = field(nullable="0+", tag=0)


class ConsumerGroupTargetAssignmentMetadataKey(Message, api_key=6, versions="0"):
    group_id: String


class ConsumerGroupTargetAssignmentMetadataValue(Message, api_key=6, versions="0", flexible="0+"):
    assignment_epoch: Int32
    assignment_timestamp: Int64 = field(tag=0)


class ConsumerGroupTargetAssignmentMemberKey(Message, api_key=7, versions="0"):
    group_id: String
    member_id: String


class TopicPartition(Struct):
    topic_id: Uuid
    partitions: list[Int32]


class ConsumerGroupTargetAssignmentMemberValue(Message, api_key=7, versions="0", flexible="0+"):
    topic_partitions: list[TopicPartition]


class ConsumerGroupCurrentMemberAssignmentKey(Message, api_key=8, versions="0"):
    group_id: String
    member_id: String


class TopicPartitions(Struct):
    topic_id: Uuid
    partitions: list[Int32]
    assignment_epochs: list[Int32] | None = field(nullable="0+", tag=0)


class ConsumerGroupCurrentMemberAssignmentValue(Message, api_key=8, versions="0", flexible="0+"):
    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: list[TopicPartitions]
    partitions_pending_revocation: list[TopicPartitions]


class ConsumerGroupRegularExpressionKey(Message, api_key=16, versions="0"):
    group_id: String
    regular_expression: String


class ConsumerGroupRegularExpressionValue(Message, api_key=16, versions="0", flexible="0+"):
    topics: list[String]
    version: Int64
    timestamp: Int64
