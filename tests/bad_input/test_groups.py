"""Rows on consumer groups: joins, members, generations, floods of joins, offsets and regular expressions."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from oncelog.broker.coordinator.run.host import partition_for
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from oncelog.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from oncelog.protocol.messages.describe_groups import DescribeGroupsRequest
from oncelog.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from oncelog.protocol.messages.find_coordinator import FindCoordinatorRequest
from oncelog.protocol.messages.heartbeat import HeartbeatRequest
from oncelog.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from oncelog.protocol.messages.list_groups import ListGroupsRequest
from oncelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from oncelog.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.bad_input.conftest import StartBroker, Target
from tests.bad_input.raw import RawClient, wait_until
from tests.bad_input.requests import create_topic

JOIN, SYNC, HEARTBEAT, COMMIT, CONSUMER_HEARTBEAT = 9, 5, 4, 9, 1


@pytest.fixture
def group(client: RawClient) -> str:
    """A name, and a coordinator for it."""
    name = f"group-{uuid.uuid4().hex[:8]}"
    (found,) = client.call(FindCoordinatorRequest(coordinator_keys=[name]), 6).coordinators
    assert found.error_code == 0
    return name


def join(group_id: str, **changes: Any) -> JoinGroupRequest:
    values: dict[str, Any] = {
        "group_id": group_id,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequestProtocol(name="range", metadata=b"")],
    }
    return JoinGroupRequest(**values | changes)


def new_member(client: RawClient, group: str) -> tuple[str, int]:
    """Joins as the only member and leads the group to a stable generation."""
    told = client.call(join(group), JOIN)
    assert told.error_code == ErrorCode.MEMBER_ID_REQUIRED
    joined = client.call(join(group, member_id=told.member_id), JOIN)
    assert joined.error_code == 0
    synced = client.call(
        SyncGroupRequest(
            group_id=group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")],
        ),
        SYNC,
    )
    assert synced.error_code == 0
    return joined.member_id, joined.generation_id


def heartbeat(group: str, member_id: str, generation: int, instance_id: str | None = None) -> HeartbeatRequest:
    return HeartbeatRequest(
        group_id=group, generation_id=generation, member_id=member_id, group_instance_id=instance_id
    )


def commit(group: str, target: Target, **changes: Any) -> OffsetCommitRequest:
    metadata = changes.pop("metadata", "")
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata=metadata)
    topic = OffsetCommitRequestTopic(name=target.name, partitions=[partition])
    return OffsetCommitRequest(group_id=group, topics=[topic], **changes)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"session_timeout_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": -1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"protocols": []}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_join_that_cannot_be(client: RawClient, group: str, changes: dict[str, Any], code: ErrorCode) -> None:
    assert client.call(join(**{"group_id": group} | changes), JOIN).error_code == code
    assert group not in [listed.group_id for listed in client.call(ListGroupsRequest(), 5).groups]


def test_a_join_with_another_protocol_than_the_groups(client: RawClient, group: str) -> None:
    new_member(client, group)
    other_type = client.call(join(group, protocol_type="connect"), JOIN)
    assert other_type.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    strange = [JoinGroupRequestProtocol(name="strange", metadata=b"")]
    assert client.call(join(group, protocols=strange), JOIN).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_members_and_generations_that_are_not_the_groups(client: RawClient, group: str, target: Target) -> None:
    member, generation = new_member(client, group)
    assert client.call(heartbeat(group, "stranger", generation), HEARTBEAT).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    for wrong in (generation - 1, generation + 1, 2**31 - 1):
        code = client.call(heartbeat(group, member, wrong), HEARTBEAT).error_code
        assert code == ErrorCode.ILLEGAL_GENERATION
    answer = client.call(commit(group, target, member_id=member, generation_id_or_member_epoch=generation - 1), COMMIT)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.ILLEGAL_GENERATION
    answer = client.call(commit(group, target, member_id="stranger", generation_id_or_member_epoch=generation), COMMIT)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert client.call(heartbeat(group, member, generation), HEARTBEAT).error_code == 0


def test_a_stolen_instance_id(client: RawClient, group: str) -> None:
    first = client.call(join(group, group_instance_id="static"), JOIN)
    assert first.error_code == 0
    stolen = client.call(join(group, group_instance_id="static", member_id="thief"), JOIN)
    assert stolen.error_code == ErrorCode.FENCED_INSTANCE_ID
    fenced = client.call(heartbeat(group, "thief", first.generation_id, "static"), HEARTBEAT)
    assert fenced.error_code == ErrorCode.FENCED_INSTANCE_ID


def test_a_flood_of_joins_that_never_go_on(start_broker: StartBroker) -> None:
    """Each gets a member id and nothing more; what they cost is bounded, and time sets it free."""
    broker = start_broker({"group.max.size": "50"})
    with RawClient(broker.port) as client:
        client.call(FindCoordinatorRequest(coordinator_keys=["flood"]), 6)
        codes = [client.call(join("flood", session_timeout_ms=6_000), JOIN).error_code for _ in range(200)]
        assert set(codes[:50]) == {ErrorCode.MEMBER_ID_REQUIRED}
        assert set(codes[50:]) == {ErrorCode.GROUP_MAX_SIZE_REACHED}
        broker.on_loop(lambda: broker.app.services.clock.advance(7_000))
        wait_until(
            lambda: client.call(join("flood"), JOIN).error_code == ErrorCode.MEMBER_ID_REQUIRED, "there is room again"
        )


@pytest.mark.parametrize(("size", "code"), [(4096, ErrorCode.NONE), (4097, ErrorCode.OFFSET_METADATA_TOO_LARGE)])
def test_metadata_of_an_offset(client: RawClient, group: str, target: Target, size: int, code: ErrorCode) -> None:
    answer = client.call(commit(group, target, metadata="x" * size), COMMIT)
    assert answer.topics[0].partitions[0].error_code == code


def consumer_heartbeat(group: str, **changes: Any) -> ConsumerGroupHeartbeatRequest:
    values: dict[str, Any] = {
        "group_id": group,
        "member_id": "member",
        "member_epoch": 0,
        "rebalance_timeout_ms": 10_000,
        "topic_partitions": [],
        "subscribed_topic_names": None,
        "server_assignor": None,
    }
    return ConsumerGroupHeartbeatRequest(**values | changes)


def test_an_expression_that_would_take_for_ever(client: RawClient, group: str) -> None:
    """The engine is linear: the worst expression against the worst name is no work at all."""
    create_topic(client, "a" * 200 + "b")
    answer = client.call(consumer_heartbeat(group, subscribed_topic_regex="(a+)+$"), CONSUMER_HEARTBEAT)
    assert answer.error_code == 0


@pytest.mark.parametrize("expression", ["(", "[", "a{1,100000}", "(?=a)", r"(a)\1", r"\pL" * 17, r"(\pL{900}){9}"])
def test_an_expression_that_is_none(client: RawClient, group: str, expression: str) -> None:
    answer = client.call(consumer_heartbeat(group, subscribed_topic_regex=expression), CONSUMER_HEARTBEAT)
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_growth_of_the_topic_that_offsets_are_in(start_broker: StartBroker) -> None:
    """With another number of partitions, most groups would be looked for where they are not."""
    group, topic = "b", "__consumer_offsets"
    assert partition_for(group, 2) != partition_for(group, 3)
    broker = start_broker({"offsets.topic.num.partitions": "2"})
    with RawClient(broker.port) as client:
        create_topic(client, "topic")
        assert client.call(FindCoordinatorRequest(coordinator_keys=[group]), 6).coordinators[0].error_code == 0
        entry = OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="")
        topics = [OffsetCommitRequestTopic(name="topic", partitions=[entry])]
        committed = client.call(OffsetCommitRequest(group_id=group, topics=topics), COMMIT)
        assert committed.topics[0].partitions[0].error_code == 0
        wanted = CreatePartitionsTopic(name=topic, count=3, assignments=None)
        (grown,) = client.call(CreatePartitionsRequest(topics=[wanted], timeout_ms=5000), 3).results
        assert (grown.name, grown.error_code) == (topic, ErrorCode.INVALID_PARTITIONS)
        asked = OffsetFetchRequestGroup(group_id=group, topics=None)
        (fetched,) = client.call(OffsetFetchRequest(groups=[asked]), 8).groups
        assert [found.committed_offset for found in fetched.topics[0].partitions] == [5]


def test_a_message_that_quotes_a_name_fits_into_a_string(client: RawClient) -> None:
    """A name may take all 32,767 bytes that a string of the protocol has."""
    name = "g" * 32_767
    (found,) = client.call(FindCoordinatorRequest(coordinator_keys=[name]), 6).coordinators
    assert found.error_code == 0
    (described,) = client.call(DescribeGroupsRequest(groups=[name]), 6).groups
    assert described.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    partitions = [TopicPartitions(topic=name, partitions=[0])]
    (elected,) = client.call(ElectLeadersRequest(topic_partitions=partitions), 2).replica_election_results
    assert elected.partition_result[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
