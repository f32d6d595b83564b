"""Fetch (key 1): read record batches, by consumers and followers, in sessions of changes (KIP-227)."""

from __future__ import annotations

from oncelog.protocol.primitives import Int8, Int16, Int32, Int64, StoredRecords, String, Uuid
from oncelog.protocol.schema import Message, Struct, field


class ReplicaState(Struct):
    replica_id: Int32 = field(default=-1)
    replica_epoch: Int64 = field(default=-1)


class FetchPartition(Struct):
    partition: Int32
    current_leader_epoch: Int32 = field("9+", default=-1)
    fetch_offset: Int64
    last_fetched_epoch: Int32 = field("12+", default=-1)
    log_start_offset: Int64 = field("5+", default=-1)
    partition_max_bytes: Int32
    replica_directory_id: Uuid = field("17+", tag=0)
    high_watermark: Int64 = field("18+", tag=1, default=0x7FFFFFFFFFFFFFFF)


class FetchTopic(Struct):
    topic: String = field("0-12")
    topic_id: Uuid = field("13+")
    partitions: list[FetchPartition]


class ForgottenTopic(Struct):
    topic: String = field("7-12")
    topic_id: Uuid = field("13+")
    partitions: list[Int32]


class FetchRequest(Message, api_key=1, versions="4-18", flexible="12+"):
    cluster_id: String | None = field("12+", nullable="12+", tag=0, default=None)
    replica_id: Int32 = field("0-14", default=-1)
    replica_state: ReplicaState = field("15+", tag=1)
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = field(default=0x7FFFFFFF)
    isolation_level: Int8
    session_id: Int32 = field("7+")
    session_epoch: Int32 = field("7+", default=-1)
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic] = field("7+")
    rack_id: String = field("11+")


class EpochEndOffset(Struct):
    epoch: Int32 = field(default=-1)
    end_offset: Int64 = field(default=-1)


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = field(default=-1)
    leader_epoch: Int32 = field(default=-1)


class SnapshotId(Struct):
    end_offset: Int64 = field(default=-1)
    epoch: Int32 = field(default=-1)


class AbortedTransaction(Struct):
    producer_id: Int64
    first_offset: Int64


class PartitionData(Struct):
    partition_index: Int32
    error_code: Int16
    high_watermark: Int64
    last_stable_offset: Int64 = field(default=-1)
    log_start_offset: Int64 = field("5+", default=-1)
    diverging_epoch: EpochEndOffset = field("12+", tag=0)
    current_leader: LeaderIdAndEpoch = field("12+", tag=1)
    snapshot_id: SnapshotId = field("12+", tag=2)
    aborted_transactions: list[AbortedTransaction] | None = field(nullable="4+")
    preferred_read_replica: Int32 = field("11+", default=-1)
    records: StoredRecords | None = field(nullable="0+")


class FetchableTopicResponse(Struct):
    topic: String = field("0-12")
    topic_id: Uuid = field("13+")
    partitions: list[PartitionData]


class NodeEndpoint(Struct):
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = field(nullable="16+", default=None)


class FetchResponse(Message, api_key=1, versions="4-18", flexible="12+"):
    throttle_time_ms: Int32
    error_code: Int16 = field("7+")
    session_id: Int32 = field("7+")
    responses: list[FetchableTopicResponse]
    node_endpoints: list[NodeEndpoint] = field("16+", tag=0)
