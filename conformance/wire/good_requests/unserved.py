"""Good requests of share groups, streams groups and voters, which both brokers refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conformance.wire.good_requests.registry import D, good
from conformance.wire.state import PLAIN
from oncelog.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from conformance.wire.talk import Talk

GROUP, MEMBER = "w-share", "CCCCCCCCCCCCCCCCCCCCCC"
DIRECTORY = b"\x07" * 16


@good(ApiKey.SHARE_GROUP_HEARTBEAT)
def _share_group_heartbeat(_: Talk, __: int) -> Any:
    return D.share_group_heartbeat.ShareGroupHeartbeatRequest(
        group_id=GROUP, member_id=MEMBER, member_epoch=0, subscribed_topic_names=[PLAIN]
    )


@good(ApiKey.SHARE_GROUP_DESCRIBE)
def _share_group_describe(_: Talk, __: int) -> Any:
    return D.share_group_describe.ShareGroupDescribeRequest(group_ids=[GROUP])


@good(ApiKey.SHARE_FETCH)
def _share_fetch(talk: Talk, _: int) -> Any:
    api = D.share_fetch
    topic = api.FetchTopic(topic_id=talk.topic_id(PLAIN), partitions=[api.FetchPartition(partition_index=0)])
    return api.ShareFetchRequest(
        group_id=GROUP, member_id=MEMBER, max_wait_ms=100, min_bytes=1, max_records=10, batch_size=10, topics=[topic]
    )


@good(ApiKey.SHARE_ACKNOWLEDGE)
def _share_acknowledge(talk: Talk, _: int) -> Any:
    api = D.share_acknowledge
    accepted = api.AcknowledgementBatch(first_offset=0, last_offset=1, acknowledge_types=[1])
    partition = api.AcknowledgePartition(partition_index=0, acknowledgement_batches=[accepted])
    topic = api.AcknowledgeTopic(topic_id=talk.topic_id(PLAIN), partitions=[partition])
    return api.ShareAcknowledgeRequest(group_id=GROUP, member_id=MEMBER, share_session_epoch=1, topics=[topic])


@good(ApiKey.ADD_RAFT_VOTER)
def _add_raft_voter(_: Talk, __: int) -> Any:
    api = D.add_raft_voter
    listener = api.Listener(name="CONTROLLER", host="127.0.0.1", port=9)
    return api.AddRaftVoterRequest(
        cluster_id=None, timeout_ms=1000, voter_id=9, voter_directory_id=DIRECTORY, listeners=[listener]
    )


@good(ApiKey.REMOVE_RAFT_VOTER)
def _remove_raft_voter(_: Talk, __: int) -> Any:
    return D.remove_raft_voter.RemoveRaftVoterRequest(cluster_id=None, voter_id=9, voter_directory_id=DIRECTORY)


@good(ApiKey.INITIALIZE_SHARE_GROUP_STATE)
def _initialize_share_group_state(talk: Talk, _: int) -> Any:
    api = D.initialize_share_group_state
    topic = api.InitializeStateData(topic_id=talk.topic_id(PLAIN), partitions=[api.PartitionData(partition=0)])
    return api.InitializeShareGroupStateRequest(group_id=GROUP, topics=[topic])


@good(ApiKey.READ_SHARE_GROUP_STATE)
def _read_share_group_state(talk: Talk, _: int) -> Any:
    api = D.read_share_group_state
    topic = api.ReadStateData(topic_id=talk.topic_id(PLAIN), partitions=[api.PartitionData(partition=0)])
    return api.ReadShareGroupStateRequest(group_id=GROUP, topics=[topic])


@good(ApiKey.WRITE_SHARE_GROUP_STATE)
def _write_share_group_state(talk: Talk, _: int) -> Any:
    api = D.write_share_group_state
    acquired = api.StateBatch(first_offset=0, last_offset=1, delivery_state=1, delivery_count=1)
    partition = api.PartitionData(partition=0, state_batches=[acquired])
    topic = api.WriteStateData(topic_id=talk.topic_id(PLAIN), partitions=[partition])
    return api.WriteShareGroupStateRequest(group_id=GROUP, topics=[topic])


@good(ApiKey.DELETE_SHARE_GROUP_STATE)
def _delete_share_group_state(talk: Talk, _: int) -> Any:
    api = D.delete_share_group_state
    topic = api.DeleteStateData(topic_id=talk.topic_id(PLAIN), partitions=[api.PartitionData(partition=0)])
    return api.DeleteShareGroupStateRequest(group_id=GROUP, topics=[topic])


@good(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY)
def _read_share_group_state_summary(talk: Talk, _: int) -> Any:
    api = D.read_share_group_state_summary
    topic = api.ReadStateSummaryData(topic_id=talk.topic_id(PLAIN), partitions=[api.PartitionData(partition=0)])
    return api.ReadShareGroupStateSummaryRequest(group_id=GROUP, topics=[topic])


@good(ApiKey.STREAMS_GROUP_HEARTBEAT)
def _streams_group_heartbeat(_: Talk, __: int) -> Any:
    api = D.streams_group_heartbeat
    topology = api.Topology(epoch=0, subtopologies=[api.Subtopology(subtopology_id="0", source_topics=[PLAIN])])
    return api.StreamsGroupHeartbeatRequest(
        group_id="w-streams",
        member_id=MEMBER,
        rebalance_timeout_ms=5000,
        topology=topology,
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id="a process",
    )


@good(ApiKey.STREAMS_GROUP_DESCRIBE)
def _streams_group_describe(_: Talk, __: int) -> Any:
    return D.streams_group_describe.StreamsGroupDescribeRequest(group_ids=["w-streams"])


@good(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS)
def _describe_share_group_offsets(_: Talk, __: int) -> Any:
    api = D.describe_share_group_offsets
    topic = api.DescribeShareGroupOffsetsRequestTopic(topic_name=PLAIN, partitions=[0])
    group = api.DescribeShareGroupOffsetsRequestGroup(group_id=GROUP, topics=[topic])
    return api.DescribeShareGroupOffsetsRequest(groups=[group])


@good(ApiKey.ALTER_SHARE_GROUP_OFFSETS)
def _alter_share_group_offsets(_: Talk, __: int) -> Any:
    api = D.alter_share_group_offsets
    partition = api.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=1)
    topic = api.AlterShareGroupOffsetsRequestTopic(topic_name=PLAIN, partitions=[partition])
    return api.AlterShareGroupOffsetsRequest(group_id=GROUP, topics=[topic])


@good(ApiKey.DELETE_SHARE_GROUP_OFFSETS)
def _delete_share_group_offsets(_: Talk, __: int) -> Any:
    api = D.delete_share_group_offsets
    return api.DeleteShareGroupOffsetsRequest(
        group_id=GROUP, topics=[api.DeleteShareGroupOffsetsRequestTopic(topic_name=PLAIN)]
    )
