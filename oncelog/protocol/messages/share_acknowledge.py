"""ShareAcknowledge (key 79): accept, release, reject or renew acquired records (KIP-932, KIP-1222)."""

from __future__ import annotations

from oncelog.protocol.primitives import Bool, Int8, Int16, Int32, Int64, String, Uuid
from oncelog.protocol.schema import Message, Struct, field


class AcknowledgementBatch(Struct):
    first_offset: Int64
    last_offset: Int64
    acknowledge_types: list[Int8]


class AcknowledgePartition(Struct):
    partition_index: Int32
    acknowledgement_batches: list[AcknowledgementBatch]


class AcknowledgeTopic(Struct):
    topic_id: Uuid
    partitions: list[AcknowledgePartition]


class ShareAcknowledgeRequest(Message, api_key=79, versions="1-2", flexible="0+"):
    group_id: String | None = field(nullable="0+", default=None)
    member_id: String | None = field(nullable="0+")
    share_session_epoch: Int32
    is_renew_ack: Bool = field("2+")
    topics: list[AcknowledgeTopic]


class LeaderIdAndEpoch(Struct):
    leader_id: Int32
    leader_epoch: Int32


class PartitionData(Struct):
    partition_index: Int32
    error_code: Int16
    error_message: String | None = field(nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch


class ShareAcknowledgeTopicResponse(Struct):
    topic_id: Uuid
    partitions: list[PartitionData]


class NodeEndpoint(Struct):
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = field(nullable="0+", default=None)


class ShareAcknowledgeResponse(Message, api_key=79, versions="1-2", flexible="0+"):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None = field(nullable="0+", default=None)
    acquisition_lock_timeout_ms: Int32 = field("2+")
    responses: list[ShareAcknowledgeTopicResponse]
    node_endpoints: list[NodeEndpoint]
