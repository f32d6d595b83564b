"""Good requests of groups and their offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conformance.wire import state
from conformance.wire.good_requests.registry import D, good
from conformance.wire.state import ABSENT, CLASSIC, CONSUMER, EMPTY, PLAIN
from oncelog.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from conformance.wire.talk import Talk


@good(ApiKey.OFFSET_COMMIT)
def _offset_commit(talk: Talk, _: int) -> Any:
    api = D.offset_commit
    partition = api.OffsetCommitRequestPartition(partition_index=0, committed_offset=3, committed_metadata="noted")
    topic = api.OffsetCommitRequestTopic(name=PLAIN, topic_id=talk.topic_id(PLAIN), partitions=[partition])
    return api.OffsetCommitRequest(
        group_id=CLASSIC,
        generation_id_or_member_epoch=1,
        member_id=talk.kept["classic member"],
        retention_time_ms=-1,
        topics=[topic],
    )


@good(ApiKey.OFFSET_FETCH)
def _offset_fetch(talk: Talk, _: int) -> Any:
    api = D.offset_fetch
    return api.OffsetFetchRequest(
        group_id=EMPTY,
        topics=[api.OffsetFetchRequestTopic(name=PLAIN, partition_indexes=[0, 1])],
        groups=[
            api.OffsetFetchRequestGroup(
                group_id=EMPTY,
                topics=[
                    api.OffsetFetchRequestTopics(name=PLAIN, topic_id=talk.topic_id(PLAIN), partition_indexes=[0, 1])
                ],
            )
        ],
    )


@good(ApiKey.FIND_COORDINATOR)
def _find_coordinator(_: Talk, __: int) -> Any:
    return D.find_coordinator.FindCoordinatorRequest(key=CLASSIC, coordinator_keys=[CLASSIC, EMPTY])


@good(ApiKey.JOIN_GROUP)
def _join_group(talk: Talk, _: int) -> Any:
    return state.join_request(talk.fresh("group"))


@good(ApiKey.HEARTBEAT)
def _heartbeat(talk: Talk, _: int) -> Any:
    return D.heartbeat.HeartbeatRequest(group_id=CLASSIC, generation_id=1, member_id=talk.kept["classic member"])


@good(ApiKey.LEAVE_GROUP)
def _leave_group(talk: Talk, _: int) -> Any:
    group = talk.fresh("group")
    member = state.join_alone(talk, group)
    identity = D.leave_group.MemberIdentity(member_id=member)
    return D.leave_group.LeaveGroupRequest(group_id=group, member_id=member, members=[identity])


@good(ApiKey.SYNC_GROUP)
def _sync_group(talk: Talk, _: int) -> Any:
    group = talk.fresh("group")
    answer = talk.ask(state.join_request(group), 3)
    assignment = D.sync_group.SyncGroupRequestAssignment(member_id=answer.member_id, assignment=b"given")
    return D.sync_group.SyncGroupRequest(
        group_id=group,
        generation_id=answer.generation_id,
        member_id=answer.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[assignment],
    )


@good(ApiKey.DESCRIBE_GROUPS)
def _describe_groups(_: Talk, __: int) -> Any:
    return D.describe_groups.DescribeGroupsRequest(groups=[CLASSIC, EMPTY, CONSUMER, ABSENT])


@good(ApiKey.LIST_GROUPS)
def _list_groups(_: Talk, __: int) -> Any:
    return D.list_groups.ListGroupsRequest(states_filter=["Stable", "Assigning"], types_filter=["consumer"])


@good(ApiKey.DELETE_GROUPS)
def _delete_groups(talk: Talk, _: int) -> Any:
    group = talk.fresh("group")
    state.commit(talk, group)
    return D.delete_groups.DeleteGroupsRequest(groups_names=[group, CLASSIC, CONSUMER])


@good(ApiKey.OFFSET_DELETE)
def _offset_delete(talk: Talk, _: int) -> Any:
    api = D.offset_delete
    group = talk.fresh("group")
    state.commit(talk, group)
    partition = api.OffsetDeleteRequestPartition(partition_index=0)
    return api.OffsetDeleteRequest(
        group_id=group, topics=[api.OffsetDeleteRequestTopic(name=PLAIN, partitions=[partition])]
    )


@good(ApiKey.CONSUMER_GROUP_HEARTBEAT)
def _consumer_group_heartbeat(talk: Talk, _: int) -> Any:
    return D.consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group_id=talk.fresh("group"),
        member_id="BBBBBBBBBBBBBBBBBBBBBB",
        member_epoch=0,
        rebalance_timeout_ms=5000,
        subscribed_topic_names=[PLAIN],
        server_assignor="uniform",
        topic_partitions=[],
    )


@good(ApiKey.CONSUMER_GROUP_DESCRIBE)
def _consumer_group_describe(_: Talk, __: int) -> Any:
    return D.consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=[CONSUMER, CLASSIC, ABSENT])
