"""Classic and consumer members in one group, and the group's way from one protocol to the other and back."""

from __future__ import annotations

from typing import Any

import pytest
from classic_client import GROUP, REBALANCE_MS, SESSION_MS, ClassicClients
from consumer_client import ConsumerClients, Metadata, code_of, topic_id

from oncelog.broker.coordinator.group.classic.classic_group import ClassicGroup
from oncelog.broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from oncelog.protocol.codec import decode, encode
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from oncelog.protocol.messages.group_records import GroupMetadataKey
from oncelog.protocol.messages.leave_group import MemberIdentity

T = topic_id("t")
ALL = {0, 1, 2, 3}


class Shard:
    """A shard with members of both protocols."""

    def __init__(self, **settings: Any) -> None:
        self.consumers = ConsumerClients(Metadata(t=4), initial_rebalance_delay_ms=0, **settings)
        self.classics = ClassicClients()
        self.classics.shard = self.consumers.shard

    @property
    def shard(self) -> Any:
        return self.consumers.shard

    @property
    def group(self) -> Any:
        return self.shard.coordinator._groups.get(GROUP)

    def stable_classic(self, *partitions: int, instance_id: str | None = None) -> str:
        """A classic group with one member."""
        if instance_id is None:
            member_id = self.classics.new_id(protocols=speaks())
            joined = self.classics.join(member_id, protocols=speaks())
        else:
            joined = self.classics.join(instance_id=instance_id, protocols=speaks())
        self.shard.advance(0)
        member_id = joined.reply.member_id
        reply = self.classics.sync(
            member_id, joined.reply.generation_id, {member_id: assignment(*partitions)}, instance_id=instance_id
        )
        assert getattr(reply, "reply", reply).error_code == 0
        return member_id


def speaks(*owned: int) -> dict[str, bytes]:
    partitions = [TopicPartition(topic="t", partitions=list(owned))] if owned else []
    return {"range": b"\0\1" + encode(ConsumerProtocolSubscription(topics=["t"], owned_partitions=partitions), 1)}


def assignment(*partitions: int) -> bytes:
    listed = [TopicPartition(topic="t", partitions=list(partitions))]
    return b"\0\1" + encode(ConsumerProtocolAssignment(assigned_partitions=listed), 1)


def assigned(data: bytes) -> set[int]:
    assert data[:2] == b"\0\1"
    message = decode(ConsumerProtocolAssignment, 1, data, 2)
    return {partition for listed in message.assigned_partitions for partition in listed.partitions}


@pytest.fixture
def shard() -> Shard:
    return Shard()


def test_a_classic_group_becomes_a_consumer_group_and_its_members_go_on(shard: Shard) -> None:
    classic_id = shard.stable_classic(*ALL)
    consumer = shard.consumers.member("c", "t")
    assert isinstance(shard.group, ConsumerGroup)
    assert shard.shard.appended[0].key == GroupMetadataKey(group=GROUP)
    assert shard.shard.appended[0].value is None
    assert consumer.owned == {}
    assert (shard.group.group_epoch, shard.group.members[classic_id].member_epoch) == (2, 1)

    assert shard.classics.heartbeat(classic_id, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    joined = shard.classics.join(classic_id, protocols=speaks(*ALL))
    assert (joined.generation_id, joined.protocol_name, joined.leader, joined.members) == (1, "range", "", [])
    kept = assigned(shard.classics.sync(classic_id, 1).assignment)
    assert len(kept) == 2
    consumer.beat()
    assert consumer.owned == {}

    assert shard.classics.heartbeat(classic_id, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    joined = shard.classics.join(classic_id, protocols=speaks(*kept))
    assert joined.generation_id == 2
    assert assigned(shard.classics.sync(classic_id, 2).assignment) == kept
    assert shard.classics.heartbeat(classic_id, 2) == 0
    consumer.beat()
    assert consumer.owned == {"t": ALL - kept}
    assert shard.group.state_name == "Stable"
    types = {member.member_id: member.member_type for member in shard.consumers.describe().members}
    assert types == {classic_id: 0, "c": 1}

    before = shard.consumers.describe()
    shard.shard.restart()
    assert shard.consumers.describe() == before
    assert shard.classics.heartbeat(classic_id, 2) == 0


def test_a_new_classic_member_joins_a_consumer_group(shard: Shard) -> None:
    consumer = shard.consumers.member("c", "t")
    classic_id = shard.classics.new_id(protocols=speaks())
    joined = shard.classics.join(classic_id, protocols=speaks())
    assert joined.generation_id == 3
    assert assigned(shard.classics.sync(classic_id, 3).assignment) == set()
    assert shard.classics.heartbeat(classic_id, 3) == 0
    consumer.take(consumer.hold())
    consumer.beat()
    assert shard.classics.heartbeat(classic_id, 3) == ErrorCode.REBALANCE_IN_PROGRESS
    joined = shard.classics.join(classic_id, protocols=speaks())
    got = assigned(shard.classics.sync(classic_id, 3).assignment)
    assert got | consumer.owned["t"] == ALL
    assert len(got) == 2
    assert shard.consumers.commit(classic_id, 3, "t", *got, version=8) == [0, 0]
    stale = code_of(lambda: shard.consumers.commit(classic_id, 9, "t", *got, version=8))
    assert stale == ErrorCode.ILLEGAL_GENERATION


def test_what_a_classic_member_may_not_do(shard: Shard) -> None:
    shard.consumers.member("c", "t")
    classic_id = shard.classics.new_id(protocols=speaks())
    shard.classics.join(classic_id, protocols=speaks())
    classics = shard.classics
    assert code_of(lambda: classics.heartbeat("c", 2)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert code_of(lambda: classics.heartbeat(classic_id, 9)) == ErrorCode.ILLEGAL_GENERATION
    assert code_of(lambda: classics.heartbeat("nobody", 3)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert code_of(lambda: classics.sync(classic_id, 3, protocol_name="other")) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    for protocols, protocol_type in ((speaks(), "connect"), ({"other": speaks()["range"]}, "consumer")):
        code = code_of(lambda p=protocols, t=protocol_type: classics.join(protocols=p, protocol_type=t))
        assert code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    broken = code_of(lambda: classics.join(protocols={"range": b"\0"}))
    assert broken == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    short = code_of(lambda: classics.join(protocols=speaks(), session_ms=1))
    assert short == ErrorCode.INVALID_SESSION_TIMEOUT


@pytest.mark.parametrize("silence", ["session", "join", "sync"])
def test_a_classic_member_that_falls_silent_is_removed(shard: Shard, silence: str) -> None:
    consumer = shard.consumers.member("c", "t")
    classic_id = shard.classics.new_id(protocols=speaks())
    generation = shard.classics.join(classic_id, protocols=speaks()).generation_id
    if silence != "sync":
        shard.classics.sync(classic_id, generation)
    if silence == "join":
        consumer.take(consumer.hold())
        consumer.beat()
    waited_ms = SESSION_MS if silence == "session" else REBALANCE_MS
    for _ in range(waited_ms // 5000):
        assert classic_id in shard.group.members
        if silence != "session":
            shard.classics.heartbeat(classic_id, generation)
        consumer.beat()
        shard.shard.advance(5000)
    assert shard.group.members.keys() == {"c"}


def test_a_group_becomes_classic_again_when_its_last_consumer_member_leaves(shard: Shard) -> None:
    classic_id = shard.stable_classic(*ALL)
    consumer = shard.consumers.member("c", "t")
    shard.classics.join(classic_id, protocols=speaks(*ALL))
    consumer.leave()
    assert isinstance(shard.group, ClassicGroup)
    assert (shard.group.generation, shard.group.state_name) == (2, "Stable")
    assert len(assigned(shard.group.members[classic_id].assignment)) == 2
    shard.shard.advance(0)
    assert shard.group.state_name == "PreparingRebalance"
    joined = shard.classics.join(classic_id, protocols=speaks())
    assert joined.generation_id == 3
    shard.shard.restart()
    assert isinstance(shard.group, ClassicGroup)
    assert [timer for timer in shard.shard.timers if timer[0].startswith("consumer")] == []


def test_a_static_member_that_is_back_with_the_classic_protocol_ends_the_consumer_group(shard: Shard) -> None:
    member = shard.consumers.member("c", "t", instance_id="i")
    member.leave(-2)
    joined = shard.classics.join(instance_id="i", protocols=speaks())
    assert joined.error_code == 0
    assert isinstance(shard.group, ClassicGroup)
    reply = shard.classics.sync(joined.member_id, joined.generation_id, instance_id="i")
    assert assigned(reply.assignment) == ALL


def test_an_administrator_removes_members_by_instance_id(shard: Shard) -> None:
    shard.consumers.member("c", "t", instance_id="i")
    shard.consumers.member("d", "t")
    left = shard.classics.leave(MemberIdentity(member_id="", group_instance_id="i"), MemberIdentity(member_id="nobody"))
    assert left == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert shard.group.members.keys() == {"d"}


@pytest.mark.parametrize("policy", ["upgrade_enabled", "downgrade_enabled"])
def test_the_policy_can_forbid_either_way(policy: str) -> None:
    shard = Shard(**{policy: False})
    shard.stable_classic(*ALL)
    if policy == "upgrade_enabled":
        assert code_of(lambda: shard.consumers.member("c", "t")) == ErrorCode.GROUP_ID_NOT_FOUND
        assert isinstance(shard.group, ClassicGroup)
    else:
        shard.consumers.member("c", "t").leave()
        assert isinstance(shard.group, ConsumerGroup)


def test_a_group_that_is_no_consumers_cannot_be_upgraded(shard: Shard) -> None:
    connect = {"protocols": {"x": b""}, "protocol_type": "connect"}
    shard.classics.join(shard.classics.new_id(**connect), **connect)
    assert code_of(lambda: shard.consumers.member("c", "t")) == ErrorCode.GROUP_ID_NOT_FOUND


def test_empty_groups_change_their_type_for_whoever_comes(shard: Shard) -> None:
    classic_id = shard.stable_classic(*ALL)
    shard.classics.leave(classic_id)
    consumer = shard.consumers.member("c", "t")
    assert consumer.owned == {"t": ALL}
    consumer.leave()
    assert code_of(lambda: shard.classics.join("unknown", protocols=speaks())) == ErrorCode.UNKNOWN_MEMBER_ID
    shard.stable_classic(*ALL)
    assert isinstance(shard.group, ClassicGroup)
    shard.shard.restart()
    assert isinstance(shard.group, ClassicGroup)


def test_a_member_changes_its_protocol_in_place(shard: Shard) -> None:
    """A static consumer that is restarted with the new protocol takes over from itself."""
    shard.stable_classic(*ALL, instance_id="i")
    consumer = shard.consumers.member("c", "t", instance_id="i")
    assert consumer.owned == {"t": ALL}
    assert shard.group.members.keys() == {"c"}
    assert shard.group.classic_count == 0


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({"subscribed_topic_regex": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({}, ErrorCode.GROUP_MAX_SIZE_REACHED),
    ],
)
def test_a_refused_upgrade_leaves_the_rebalance_of_the_classic_group_alone(
    fields: dict[str, Any], refusal: ErrorCode
) -> None:
    shard = Shard(consumer_group_size_max=2 if refusal is ErrorCode.GROUP_MAX_SIZE_REACHED else 3)
    leader_id = shard.stable_classic(*ALL)
    other_id = shard.classics.new_id(protocols=speaks())
    other_joins = shard.classics.join(other_id, protocols=speaks())
    assert code_of(lambda: shard.consumers.member("c", "t", **fields)) == refusal
    assert not other_joins.done
    assert shard.classics.join(leader_id, protocols=speaks(*ALL)).generation_id == 2
    assert other_joins.reply.generation_id == 2

    other_syncs = shard.classics.sync(other_id, 2)
    assert code_of(lambda: shard.consumers.member("c", "t", **fields)) == refusal
    assert not other_syncs.done
    shard.classics.sync(leader_id, 2, {leader_id: assignment(0, 1), other_id: assignment(2, 3)})
    assert assigned(other_syncs.reply.assignment) == {2, 3}
    assert isinstance(shard.group, ClassicGroup)


def test_an_upgrade_sends_whoever_waits_in_a_rebalance_to_join_again(shard: Shard) -> None:
    leader_id = shard.stable_classic(*ALL)
    other_id = shard.classics.new_id(protocols=speaks())
    waiting = shard.classics.join(other_id, protocols=speaks())
    shard.consumers.member("c", "t")
    assert (waiting.reply.error_code, waiting.reply.member_id) == (ErrorCode.REBALANCE_IN_PROGRESS, other_id)
    assert shard.group.members.keys() == {leader_id, other_id, "c"}
    assert shard.shard.parked == {}


def test_an_upgrade_turns_away_whoever_waits_for_an_assignment(shard: Shard) -> None:
    leader_id = shard.stable_classic(*ALL)
    other_id = shard.classics.new_id(protocols=speaks())
    shard.classics.join(other_id, protocols=speaks())
    shard.classics.join(leader_id, protocols=speaks(*ALL))
    waiting = shard.classics.sync(other_id, 2)
    shard.consumers.member("c", "t")
    assert waiting.reply.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert shard.shard.parked == {}


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({"session_ms": 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"protocols": {}}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_a_refused_join_leaves_an_empty_consumer_group_with_its_offsets(
    shard: Shard, fields: dict[str, Any], refusal: ErrorCode
) -> None:
    consumer = shard.consumers.member("c", "t")
    assert shard.consumers.commit("c", consumer.epoch, "t", 0) == [0]
    consumer.leave()
    assert shard.classics.join(**fields).error_code == refusal
    assert shard.shard.appended == []
    for _ in range(2):
        (listed,) = shard.shard.coordinator.list_groups(frozenset(), frozenset())
        assert (listed.group_id, listed.group_type, listed.group_state) == (GROUP, "consumer", "Empty")
        assert shard.classics.fetch({"t": [0]}) == {("t", 0): 1}
        shard.shard.restart()


def test_a_classic_group_takes_over_the_offsets_of_an_empty_consumer_group(shard: Shard) -> None:
    consumer = shard.consumers.member("c", "t")
    shard.consumers.commit("c", consumer.epoch, "t", 0)
    consumer.leave()
    shard.classics.new_id(protocols=speaks())
    for _ in range(2):
        (listed,) = shard.shard.coordinator.list_groups(frozenset(), frozenset())
        assert (listed.group_id, listed.group_type, listed.group_state) == (GROUP, "classic", "Empty")
        assert shard.classics.fetch({"t": [0]}) == {("t", 0): 1}
        shard.shard.restart()
