"""ShareFetch (key 78): acquire records for a share group and acknowledge earlier ones (KIP-932, KIP-1206)."""

from __future__ import annotations

from oncelog.protocol.primitives import Bool, Int8, Int16, Int32, Int64, Records, String, Uuid
from oncelog.protocol.schema import Message, Struct, field


class AcknowledgementBatch(Struct):
    first_offset: Int64
    last_offset: Int64
    acknowledge_types: list[Int8]


class FetchPartition(Struct):
    partition_index: Int32
    acknowledgement_batches: list[AcknowledgementBatch]


class FetchTopic(Struct):
    topic_id: Uuid
    partitions: list[FetchPartition]


class ForgottenTopic(Struct):
    topic_id: Uuid
    partitions: list[Int32]


class ShareFetchRequest(Message, api_key=78, versions="1-2", flexible="0+"):
    group_id: String | None = field(nullable="0+", default=None)
    member_id: String | None = field(nullable="0+")
    share_session_epoch: Int32
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = field(default=0x7FFFFFFF)
    max_records: Int32
    batch_size: Int32
    share_acquire_mode: Int8 = field("2+")
    is_renew_ack: Bool = field("2+")
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic]


class LeaderIdAndEpoch(Struct):
    leader_id: Int32
    leader_epoch: Int32


class AcquiredRecords(Struct):
    first_offset: Int64
    last_offset: Int64
    delivery_count: Int16


class PartitionData(Struct):
    partition_index: Int32
    error_code: Int16
    error_message: String | None = field(nullable="0+", default=None)
    acknowledge_error_code: Int16
    acknowledge_error_message: String | None = field(nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch
    records: Records
    acquired_records: list[AcquiredRecords]


class ShareFetchableTopicResponse(Struct):
    topic_id: Uuid
    partitions: list[PartitionData]


class NodeEndpoint(Struct):
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = field(nullable="0+", default=None)


class ShareFetchResponse(Message, api_key=78, versions="1-2", flexible="0+"):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None = field(nullable="0+", default=None)
    acquisition_lock_timeout_ms: Int32
    responses: list[ShareFetchableTopicResponse]
    node_endpoints: list[NodeEndpoint]
