"""Classic groups: request in, time advanced, exact reply and exact records out."""

from __future__ import annotations

import pytest
from classic_client import DELAY_MS, GROUP, REBALANCE_MS, SESSION_MS, ClassicClients, subscription

from oncelog.broker.coordinator.group.classic.states import TRANSITIONS, ClassicState
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.group_records import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from oncelog.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from oncelog.protocol.messages.leave_group import MemberIdentity
from oncelog.protocol.messages.sync_group import SyncGroupResponse


@pytest.fixture
def clients() -> ClassicClients:
    return ClassicClients()


def refused(code: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, member_id=member_id)


def code_of(operation: object) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        operation()  # type: ignore[operator]
    return caught.value.code


# -- the first generation ------------------------------------------------------------------------------------


def test_first_join_gets_an_id_and_makes_the_group(clients: ClassicClients) -> None:
    assert clients.join() == refused(ErrorCode.MEMBER_ID_REQUIRED, "client-1")
    (record,) = clients.shard.appended
    assert record.key == GroupMetadataKey(group=GROUP)
    assert record.value == GroupMetadataValue(protocol=None, leader=None, current_state_timestamp=clients.shard.wall_ms)
    assert record.value_version == 3
    assert clients.describe().group_state == "Empty"


def test_one_member_from_join_to_stable(clients: ClassicClients) -> None:
    member_id = clients.new_id()
    join = clients.join(member_id)
    assert clients.describe().group_state == "PreparingRebalance"
    clients.shard.advance(DELAY_MS - 1)
    assert not join.done
    clients.shard.advance(1)
    assert join.reply == JoinGroupResponse(
        generation_id=1,
        protocol_type="consumer",
        protocol_name="range",
        leader=member_id,
        member_id=member_id,
        members=[JoinGroupResponseMember(member_id=member_id, metadata=subscription("t"))],
    )
    assert clients.describe().group_state == "CompletingRebalance"
    assert clients.sync(member_id, 1, {member_id: b"a"}) == SyncGroupResponse(
        protocol_type="consumer", protocol_name="range", assignment=b"a"
    )
    (record,) = clients.shard.appended
    assert record.value == GroupMetadataValue(
        protocol_type="consumer",
        generation=1,
        protocol="range",
        leader=member_id,
        current_state_timestamp=clients.shard.wall_ms,
        members=[
            MemberMetadata(
                member_id=member_id,
                client_id="client",
                client_host="/127.0.0.1",
                rebalance_timeout=REBALANCE_MS,
                session_timeout=SESSION_MS,
                subscription=subscription("t"),
                assignment=b"a",
            )
        ],
    )
    described = clients.describe()
    assert (described.group_state, described.protocol_data) == ("Stable", "range")
    assert described.members[0].member_assignment == b"a"


def test_initial_delay_grows_while_members_come_up_to_the_rebalance_timeout(clients: ClassicClients) -> None:
    first = clients.join(clients.new_id(), rebalance_ms=7000)
    waits_ms = 0
    for _ in range(4):
        clients.shard.advance(DELAY_MS - 1)
        waits_ms += DELAY_MS - 1
        if first.done:
            break
        clients.join(clients.new_id(), rebalance_ms=7000)
        clients.shard.advance(1)
        waits_ms += 1
    assert first.done
    assert 7000 <= waits_ms <= 7000 + DELAY_MS


def test_members_of_old_clients_join_without_an_id_first(clients: ClassicClients) -> None:
    join = clients.join(version=3)
    clients.shard.advance(DELAY_MS)
    assert join.reply.member_id == "client-1"
    assert join.reply.generation_id == 1


def test_followers_wait_for_the_leaders_assignment(clients: ClassicClients) -> None:
    leader, follower = clients.new_id(), clients.new_id()
    joins = [clients.join(leader), clients.join(follower)]
    clients.shard.advance(2 * DELAY_MS)
    assert [join.reply.leader for join in joins] == [leader, leader]
    assert [len(join.reply.members) for join in joins] == [2, 0]
    waiting = clients.sync(follower, 1)
    assert not waiting.done
    assert clients.sync(leader, 1, {leader: b"a", follower: b"b"}).assignment == b"a"
    assert waiting.reply.assignment == b"b"


def test_member_that_the_leader_forgot_gets_an_empty_assignment(clients: ClassicClients) -> None:
    leader, follower = clients.new_id(), clients.new_id()
    clients.join(leader), clients.join(follower)
    clients.shard.advance(2 * DELAY_MS)
    clients.sync(leader, 1, {leader: b"a"})
    assert clients.sync(follower, 1).assignment == b""


def test_protocol_is_the_one_that_most_prefer_of_those_that_all_speak(clients: ClassicClients) -> None:
    preferences = [("sticky", "range", "only-me"), ("range", "sticky"), ("range", "sticky")]
    joins = [
        clients.join(clients.new_id(), protocols={name: subscription("t") for name in names}) for names in preferences
    ]
    clients.shard.advance(REBALANCE_MS)
    assert {join.reply.protocol_name for join in joins} == {"range"}


# -- refusals ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"session_ms": 5999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"protocols": {}}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_join_that_is_refused_leaves_no_trace(
    clients: ClassicClients, options: dict[str, object], code: ErrorCode
) -> None:
    assert clients.join(**options).error_code == code  # type: ignore[arg-type]
    assert not clients.shard.appended
    assert clients.coordinator.list_groups(frozenset(), frozenset()) == []


def test_join_with_other_protocols_than_the_groups(clients: ClassicClients) -> None:
    clients.stable(b"a")
    assert clients.join(protocol_type="connect").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    other = {"sticky": subscription("t")}
    assert clients.join(protocols=other).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_group_has_no_more_members_than_allowed() -> None:
    clients = ClassicClients(group_size_max=1)
    (member,) = clients.stable(b"a")
    assert clients.join().error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert clients.heartbeat(member, 1) == ErrorCode.NONE


def test_ids_that_are_given_out_are_limited_and_expire() -> None:
    clients = ClassicClients(group_size_max=2)
    clients.new_id(), clients.new_id()
    assert clients.join().error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    clients.shard.advance(SESSION_MS)
    clients.new_id()


def test_sync_and_heartbeat_of_strangers_and_old_generations(clients: ClassicClients) -> None:
    assert code_of(lambda: clients.heartbeat("m", 1)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert code_of(lambda: clients.sync("m", 1)) == ErrorCode.UNKNOWN_MEMBER_ID
    (member,) = clients.stable(b"a")
    assert code_of(lambda: clients.heartbeat("other", 1)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert code_of(lambda: clients.heartbeat(member, 2)) == ErrorCode.ILLEGAL_GENERATION
    assert code_of(lambda: clients.sync(member, 2)) == ErrorCode.ILLEGAL_GENERATION
    inconsistent = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert code_of(lambda: clients.sync(member, 1, protocol_name="sticky")) == inconsistent
    assert code_of(lambda: clients.sync(member, 1, protocol_type="connect")) == inconsistent
    assert code_of(lambda: clients.heartbeat("m", 1, group_id="")) == ErrorCode.INVALID_GROUP_ID


# -- rebalances ----------------------------------------------------------------------------------------------


def test_new_member_sets_a_rebalance_going(clients: ClassicClients) -> None:
    (leader,) = clients.stable(b"a")
    newcomer = clients.new_id()
    join = clients.join(newcomer)
    assert not join.done
    assert clients.heartbeat(leader, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert code_of(lambda: clients.sync(leader, 1)) == ErrorCode.REBALANCE_IN_PROGRESS
    rejoined = clients.join(leader)
    assert rejoined.generation_id == join.reply.generation_id == 2
    assert rejoined.leader == leader


def test_member_that_does_not_rejoin_in_time_is_out(clients: ClassicClients) -> None:
    ids = clients.stable(b"a", b"b", session_ms=REBALANCE_MS * 2)
    rejoined = clients.join(ids[1], protocols={"range": subscription("t", "u")})
    clients.shard.advance(REBALANCE_MS)
    assert rejoined.reply.leader == ids[1]
    assert [member.member_id for member in rejoined.reply.members] == [ids[1]]
    assert code_of(lambda: clients.heartbeat(ids[0], 1)) == ErrorCode.UNKNOWN_MEMBER_ID


def test_retry_of_a_join_is_answered_without_a_rebalance(clients: ClassicClients) -> None:
    ids = clients.stable(b"a", b"b")
    assert clients.join(ids[1]).generation_id == 1
    # The leader's wish for a rebalance is granted.
    assert not clients.join(ids[0]).done
    assert clients.describe().group_state == "PreparingRebalance"


def test_second_request_of_a_member_displaces_the_first(clients: ClassicClients) -> None:
    member = clients.new_id()
    first, second = clients.join(member), clients.join(member)
    assert first.reply == refused(ErrorCode.REBALANCE_IN_PROGRESS, member)
    clients.shard.advance(DELAY_MS)
    assert second.reply.generation_id == 1


def test_rebalance_turns_away_those_who_wait_for_an_assignment(clients: ClassicClients) -> None:
    leader, follower = clients.new_id(), clients.new_id()
    clients.join(leader), clients.join(follower)
    clients.shard.advance(2 * DELAY_MS)
    waiting = clients.sync(follower, 1)
    clients.leave(leader)
    assert waiting.reply == SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)


def test_members_that_never_sync_are_removed(clients: ClassicClients) -> None:
    leader, silent = clients.new_id(), clients.new_id()
    clients.join(leader, session_ms=1_000_000), clients.join(silent, session_ms=1_000_000)
    clients.shard.advance(2 * DELAY_MS)
    clients.sync(leader, 1, {leader: b"a"})
    clients.shard.advance(REBALANCE_MS)
    assert clients.heartbeat(leader, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert code_of(lambda: clients.heartbeat(silent, 1)) == ErrorCode.UNKNOWN_MEMBER_ID


def test_session_expires_without_heartbeats(clients: ClassicClients) -> None:
    ids = clients.stable(b"a", b"b")
    clients.shard.advance(SESSION_MS - 1)
    assert clients.heartbeat(ids[0], 1) == ErrorCode.NONE
    clients.shard.advance(1)
    assert clients.heartbeat(ids[0], 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert clients.join(ids[0]).generation_id == 2


def test_commits_keep_a_session_alive(clients: ClassicClients) -> None:
    (member,) = clients.stable(b"a")
    for _ in range(3):
        clients.shard.advance(SESSION_MS - 1)
        assert clients.commit({("t", 0): 1}, member_id=member, generation=1) == [0]
    assert clients.heartbeat(member, 1) == ErrorCode.NONE


def test_last_member_to_go_leaves_an_empty_group(clients: ClassicClients) -> None:
    (member,) = clients.stable(b"a")
    assert clients.leave(member) == [0]
    (record,) = clients.shard.appended
    assert record.value == GroupMetadataValue(
        protocol_type="consumer",
        generation=2,
        protocol=None,
        leader=None,
        current_state_timestamp=clients.shard.wall_ms,
    )
    assert clients.describe().group_state == "Empty"


def test_pending_member_may_leave(clients: ClassicClients) -> None:
    member = clients.new_id()
    assert clients.leave(member, "stranger") == [0, ErrorCode.UNKNOWN_MEMBER_ID]
    assert clients.join(member).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert clients.leave("m", group_id="nobody") == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_new_member_whose_client_is_gone_does_not_wait_for_ever(clients: ClassicClients) -> None:
    (leader,) = clients.stable(b"a", rebalance_ms=1_000_000, session_ms=1_000_000)
    join = clients.join(clients.new_id(), rebalance_ms=1_000_000)
    for _ in range(10):
        clients.shard.advance(30_000)
        assert clients.heartbeat(leader, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert join.reply == refused(ErrorCode.UNKNOWN_MEMBER_ID)


# -- static members ------------------------------------------------------------------------------------------


def stable_static(clients: ClassicClients, *instances: str) -> list[str]:
    joins = [clients.join(instance_id=instance) for instance in instances]
    clients.shard.advance(2 * DELAY_MS)
    ids = [join.reply.member_id for join in joins]
    clients.sync(ids[0], 1, {member: member.encode() for member in ids}, instance_id=instances[0])
    for member, instance in zip(ids[1:], instances[1:], strict=True):
        clients.sync(member, 1, instance_id=instance)
    return ids


def test_restarted_static_member_gets_its_assignment_back_without_a_rebalance(clients: ClassicClients) -> None:
    leader, follower = stable_static(clients, "one", "two")
    reply = clients.join(instance_id="two")
    assert reply.generation_id == 1
    assert not reply.members
    assert not reply.skip_assignment
    (record,) = clients.shard.appended
    assert {member.member_id: member.assignment for member in record.value.members} == {
        leader: leader.encode(),
        reply.member_id: follower.encode(),
    }
    assert clients.sync(reply.member_id, 1, instance_id="two").assignment == follower.encode()
    assert clients.heartbeat(leader, 1) == ErrorCode.NONE
    fenced = lambda: clients.heartbeat(follower, 1, instance_id="two")  # noqa: E731
    assert code_of(fenced) == ErrorCode.FENCED_INSTANCE_ID


def test_restarted_static_leader_skips_the_assignment(clients: ClassicClients) -> None:
    stable_static(clients, "one", "two")
    reply = clients.join(instance_id="one")
    assert reply.skip_assignment
    assert reply.leader == reply.member_id
    assert len(reply.members) == 2


def test_older_static_leader_is_not_told_that_it_leads(clients: ClassicClients) -> None:
    leader, _ = stable_static(clients, "one", "two")
    reply = clients.join(instance_id="one", version=8)
    assert reply.leader == leader != reply.member_id
    assert not reply.members


def test_static_member_that_changes_the_protocol_sets_a_rebalance_going(clients: ClassicClients) -> None:
    both = {"range": subscription("t"), "sticky": subscription("t")}
    join = clients.join(instance_id="one", protocols=both)
    clients.shard.advance(DELAY_MS)
    clients.sync(join.reply.member_id, 1, {}, instance_id="one")
    reply = clients.join(instance_id="one", protocols={"sticky": subscription("t")})
    assert (reply.generation_id, reply.protocol_name) == (2, "sticky")


def test_static_member_that_waits_is_fenced_by_its_successor(clients: ClassicClients) -> None:
    first = clients.join(instance_id="one")
    second = clients.join(instance_id="one")
    assert first.reply == refused(ErrorCode.FENCED_INSTANCE_ID, "one-1")
    clients.shard.advance(DELAY_MS)
    assert second.reply.member_id == "one-2"
    third = clients.join(instance_id="one")
    assert third.generation_id == 2
    assert clients.join("one-2", instance_id="one").error_code == ErrorCode.FENCED_INSTANCE_ID
    assert clients.join("one-3", instance_id="none").error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_static_members_stay_while_they_are_away_until_their_session_ends(clients: ClassicClients) -> None:
    leader, _ = stable_static(clients, "one", "two")
    joined = clients.join(leader, instance_id="one", session_ms=1_000_000)
    clients.shard.advance(SESSION_MS)
    assert joined.reply.generation_id == 2
    assert [member.group_instance_id for member in joined.reply.members] == ["one"]


def test_administrator_removes_static_members_by_instance_id(clients: ClassicClients) -> None:
    stable_static(clients, "one", "two")
    gone = [MemberIdentity(member_id="", group_instance_id=instance) for instance in ("two", "nobody")]
    assert clients.leave(*gone) == [0, ErrorCode.UNKNOWN_MEMBER_ID]
    assert clients.leave(MemberIdentity(member_id="x", group_instance_id="one")) == [ErrorCode.FENCED_INSTANCE_ID]
    assert [member.group_instance_id for member in clients.describe().members] == ["one"]


# -- restarts ------------------------------------------------------------------------------------------------


def test_members_go_on_after_a_restart(clients: ClassicClients) -> None:
    ids = clients.stable(b"a", b"b")
    clients.shard.restart()
    assert [clients.heartbeat(member, 1) for member in ids] == [0, 0]
    assert clients.sync(ids[1], 1).assignment == b"b"
    clients.shard.advance(SESSION_MS - 1)
    assert clients.heartbeat(ids[0], 1) == ErrorCode.NONE
    clients.shard.advance(1)
    assert clients.heartbeat(ids[0], 1) == ErrorCode.REBALANCE_IN_PROGRESS


def test_rebalance_under_way_is_forgotten_by_a_restart(clients: ClassicClients) -> None:
    (leader,) = clients.stable(b"a")
    newcomer = clients.new_id()
    clients.join(newcomer)
    clients.shard.restart()
    assert clients.heartbeat(leader, 1) == ErrorCode.NONE
    assert clients.join(newcomer).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_group_above_a_lowered_limit_shrinks_after_a_restart(clients: ClassicClients) -> None:
    ids = clients.stable(b"a", b"b")
    clients.settings = ClassicClients(group_size_max=1).settings
    clients.shard.restart()
    assert not clients.join(ids[1]).done
    assert clients.join(ids[0]).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


# -- administration ------------------------------------------------------------------------------------------


def test_groups_are_listed_by_state_and_type(clients: ClassicClients) -> None:
    (member,) = clients.stable(b"a")
    clients.commit({("t", 0): 5}, group_id="simple")
    listed = clients.coordinator.list_groups(frozenset(), frozenset())
    assert [(group.group_id, group.protocol_type, group.group_state, group.group_type) for group in listed] == [
        (GROUP, "consumer", "Stable", "classic"),
        ("simple", "", "Empty", "classic"),
    ]
    assert [group.group_id for group in clients.coordinator.list_groups(frozenset({"stable"}), frozenset())] == [GROUP]
    assert clients.coordinator.list_groups(frozenset(), frozenset({"consumer"})) == []
    assert len(clients.coordinator.list_groups(frozenset(), frozenset({"classic"}))) == 2
    assert member


def test_group_that_does_not_exist_is_dead(clients: ClassicClients) -> None:
    described = clients.describe("nobody")
    assert (described.group_state, described.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)


def test_only_empty_groups_are_deleted(clients: ClassicClients) -> None:
    def delete(group_id: str) -> None:
        clients.shard.run(lambda coordinator, now: coordinator.delete_group(group_id, now))

    assert code_of(lambda: delete("nobody")) == ErrorCode.GROUP_ID_NOT_FOUND
    (member,) = clients.stable(b"a")
    assert code_of(lambda: delete(GROUP)) == ErrorCode.NON_EMPTY_GROUP
    clients.commit({("t", 0): 5}, member_id=member, generation=1)
    clients.leave(member)
    delete(GROUP)
    assert [record.value for record in clients.shard.appended] == [None, None]
    assert clients.fetch() == {}
    clients.shard.restart()
    assert clients.describe().group_state == "Dead"


def test_every_state_can_be_reached_and_left_as_the_table_says() -> None:
    reachable = {ClassicState.EMPTY}
    while True:
        further = reachable | {state for known in reachable for state in TRANSITIONS[known]}
        if further == reachable:
            break
        reachable = further
    assert reachable == set(ClassicState)
    assert not TRANSITIONS[ClassicState.DEAD]
