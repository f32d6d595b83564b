"""Consumer groups on a simulated shard: exact replies and exact records."""

from __future__ import annotations

import pytest
from consumer_client import GROUP, REBALANCE_MS, SESSION_MS, ConsumerClients, Metadata, code_of, topic_id
from simulated_shard import WALL_MS

from oncelog.broker.base.regex import MISSING_ENGINE, _log_missing_engine
from oncelog.broker.coordinator.group.consumer.member import ConsumerMember, MemberState
from oncelog.broker.coordinator.group.consumer.records import (
    current_record,
    group_record,
    member_record,
    member_tombstones,
    target_epoch_record,
    target_record,
)
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.consumer_group_heartbeat import TopicPartitions

T = topic_id("t")


@pytest.fixture
def metadata() -> Metadata:
    return Metadata(t=4)


@pytest.fixture
def clients(metadata: Metadata) -> ConsumerClients:
    return ConsumerClients(metadata)


def settle(*members: object) -> None:
    """Heartbeats until all is said."""
    for _ in range(6):
        for member in members:
            member.beat()  # type: ignore[attr-defined]


# -- joining -----------------------------------------------------------------------------------------------------


def test_the_first_member_gets_all_partitions_at_once_and_the_log_has_every_step(clients: ConsumerClients) -> None:
    member = clients.member("a", "t")
    assert (member.epoch, member.owned) == (2, {"t": {0, 1, 2, 3}})
    joined = ConsumerMember(
        "a",
        rebalance_timeout_ms=REBALANCE_MS,
        client_id="client",
        client_host="/127.0.0.1",
        topic_names=frozenset({"t"}),
    )
    advanced = joined.advanced(MemberState.STABLE, 2, {T: dict.fromkeys(range(4), 2)})
    assert clients.shard.appended == [
        member_record(GROUP, joined),
        group_record(GROUP, 2, clients.group.metadata_hash),
        target_record(GROUP, "a", {T: frozenset(range(4))}),
        target_epoch_record(GROUP, 2, WALL_MS),
        current_record(GROUP, advanced),
    ]
    assert clients.group.state_name == "Stable"


def test_a_heartbeat_that_changes_nothing_writes_nothing(clients: ConsumerClients) -> None:
    member = clients.member("a", "t")
    reply = member.beat()
    assert clients.shard.appended == []
    assert (reply.member_epoch, reply.assignment, reply.heartbeat_interval_ms) == (2, None, 5000)


def test_before_version_1_the_broker_chooses_the_id_of_a_member(clients: ConsumerClients) -> None:
    fields = {"rebalance_timeout_ms": 1, "subscribed_topic_names": ["t"], "topic_partitions": []}
    assert clients.heartbeat("", 0, version=0, **fields).member_id == "new-1"
    assert code_of(lambda: clients.heartbeat("", 0, version=1, **fields)) == ErrorCode.INVALID_REQUEST


def test_a_partition_moves_only_when_its_owner_has_given_it_up(clients: ConsumerClients) -> None:
    first = clients.member("a", "t")
    second = clients.member("b", "t")
    assert second.owned == {}
    assert second.epoch == 3
    assert clients.group.members["b"].state is MemberState.UNRELEASED_PARTITIONS

    reply = first.hold()
    kept = reply.assignment.topic_partitions[0].partitions
    assert first.epoch == 2
    assert len(kept) == 2
    assert clients.group.members["a"].state is MemberState.UNREVOKED_PARTITIONS
    assert second.beat().assignment is None

    first.owned = {"t": set(kept)}
    first.beat()
    assert first.epoch == 3
    assert clients.group.members["a"].state is MemberState.STABLE
    second.beat()
    assert second.owned == {"t": {0, 1, 2, 3} - set(kept)}
    assert clients.group.state_name == "Stable"


def test_members_that_come_within_a_moment_share_an_assignment(metadata: Metadata) -> None:
    clients = ConsumerClients(metadata, consumer_assignment_interval_ms=1000)
    first = clients.member("a", "t")
    second = clients.member("b", "t")
    assert (clients.group.group_epoch, clients.group.assignment_epoch) == (3, 2)
    assert clients.group.state_name == "Assigning"
    clients.shard.advance(1000)
    settle(first, second)
    assert clients.group.state_name == "Stable"
    assert {len(first.owned["t"]), len(second.owned["t"])} == {2}


def test_a_setting_that_changes_while_the_broker_runs_takes_effect(metadata: Metadata) -> None:
    clients = ConsumerClients(metadata, consumer_assignment_interval_ms=1000)
    clients.member("a", "t")
    clients.settings = clients.settings._replace(consumer_assignment_interval_ms=0)
    clients.member("b", "t")
    assert clients.group.assignment_epoch == 3


def test_a_member_without_a_topic_that_exists_waits_for_it(clients: ConsumerClients, metadata: Metadata) -> None:
    member = clients.member("a", "later")
    assert (member.epoch, member.owned) == (2, {})
    metadata.set_topic("later", 2)
    member.beat()
    assert (member.epoch, member.owned) == (3, {"later": {0, 1}})


def test_a_group_notices_that_a_topic_grows_and_goes(clients: ConsumerClients, metadata: Metadata) -> None:
    member = clients.member("a", "t")
    metadata.set_topic("unrelated", 1)
    member.beat()
    assert clients.shard.appended == []
    metadata.set_topic("t", 6)
    member.beat()
    assert (member.epoch, member.owned) == (3, {"t": set(range(6))})
    metadata.delete_topic("t")
    member.hold()
    member.owned = {}
    member.beat()
    assert clients.group.state_name == "Stable"
    assert clients.group.members["a"].assigned == {}


# -- subscriptions -----------------------------------------------------------------------------------------------


def test_a_member_that_unsubscribes_gives_up_the_topic(clients: ConsumerClients, metadata: Metadata) -> None:
    metadata.set_topic("u", 2)
    member = clients.member("a", "t", "u")
    assert member.owned == {"t": {0, 1, 2, 3}, "u": {0, 1}}
    member.hold(subscribed_topic_names=["u"])
    member.owned = {"u": {0, 1}}
    member.beat()
    assert clients.group.state_name == "Stable"
    assert clients.group.members["a"].assigned.keys() == {topic_id("u")}
    assert not clients.group.is_subscribed_to("t")


def test_an_expression_finds_topics_and_those_that_come_later(clients: ConsumerClients, metadata: Metadata) -> None:
    metadata.set_topic("events-1", 1)
    member = clients.member("a", subscribed_topic_regex="events-.*")
    assert member.owned == {"events-1": {0}}
    assert clients.group.regexes["events-.*"].topics == {"events-1"}
    assert clients.group.is_subscribed_to("events-1")
    metadata.set_topic("events-2", 1)
    clients.shard.advance(10_000)
    member.beat()
    assert member.owned == {"events-1": {0}, "events-2": {0}}
    clients.shard.restart()
    member.beat()
    assert clients.shard.appended == []
    member.beat(subscribed_topic_regex="", subscribed_topic_names=["t"])
    member.beat()
    assert clients.group.regexes == {}
    assert member.owned == {"t": {0, 1, 2, 3}}


@pytest.mark.parametrize("regex", ["(", "(?=a)", "a" * 10_000, r"(a)\1"])
def test_an_expression_that_is_none_is_refused(clients: ConsumerClients, regex: str) -> None:
    code = code_of(lambda: clients.member("a", subscribed_topic_regex=regex))
    assert code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert clients.shard.log == []


def test_an_expression_cannot_stall_the_broker(clients: ConsumerClients, metadata: Metadata) -> None:
    metadata.set_topic("a" * 249, 1)
    metadata.set_topic("a" * 248 + "b", 1)
    assert clients.member("a", subscribed_topic_regex="(a+)+$").owned == {"a" * 249: {0}}


def test_without_its_package_a_broker_refuses_expressions(
    clients: ConsumerClients, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "re2", None)
    _log_missing_engine.cache_clear()
    for _ in range(2):
        with pytest.raises(KafkaError, match="on this broker the package google-re2 is missing") as refused:
            clients.member("a", subscribed_topic_regex="a")
        assert refused.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert [line for line in caplog.messages if "pip install google-re2" in line] == [MISSING_ENGINE]


def test_most_votes_choose_the_assignor(clients: ConsumerClients) -> None:
    clients.member("a", "t", server_assignor="range")
    assert clients.describe().assignor_name == "range"
    assert code_of(lambda: clients.member("b", "t", server_assignor="mine")) == ErrorCode.UNSUPPORTED_ASSIGNOR


# -- fencing -----------------------------------------------------------------------------------------------------


def test_a_member_is_fenced_by_its_epoch(clients: ConsumerClients) -> None:
    member = clients.member("a", "t")
    assert code_of(lambda: clients.heartbeat("a", 9)) == ErrorCode.FENCED_MEMBER_EPOCH
    assert code_of(lambda: clients.heartbeat("a", 1)) == ErrorCode.FENCED_MEMBER_EPOCH
    assert code_of(lambda: clients.heartbeat("b", 2)) == ErrorCode.UNKNOWN_MEMBER_ID
    member.beat()


def test_a_member_whose_answer_got_lost_may_repeat_its_heartbeat(clients: ConsumerClients) -> None:
    first = clients.member("a", "t")
    second = clients.member("b", "t")
    settle(first, second)
    clients.member("c", "t")
    settle(first, second)
    member = clients.group.members["a"]
    assert member.previous_member_epoch < member.member_epoch
    reply = clients.heartbeat("a", member.previous_member_epoch, topic_partitions=first.report())
    assert reply.member_epoch == member.member_epoch
    more = [TopicPartitions(topic_id=T, partitions=[0, 1, 2, 3])]
    repeated = code_of(lambda: clients.heartbeat("a", member.previous_member_epoch, topic_partitions=more))
    assert repeated == ErrorCode.FENCED_MEMBER_EPOCH


@pytest.mark.parametrize(
    ("epoch", "fields"),
    [
        (0, {"subscribed_topic_names": ["t"], "topic_partitions": []}),
        (0, {"rebalance_timeout_ms": 1, "topic_partitions": []}),
        (0, {"rebalance_timeout_ms": 1, "subscribed_topic_names": ["t"]}),
        (
            0,
            {
                "rebalance_timeout_ms": 1,
                "subscribed_topic_names": ["t"],
                "topic_partitions": [TopicPartitions(topic_id=T, partitions=[0])],
            },
        ),
        (-2, {}),
        (-3, {}),
        (1, {"instance_id": ""}),
        (1, {"rack_id": " "}),
    ],
)
def test_requests_that_make_no_sense_are_refused(
    clients: ConsumerClients, epoch: int, fields: dict[str, object]
) -> None:
    assert code_of(lambda: clients.heartbeat("a", epoch, **fields)) == ErrorCode.INVALID_REQUEST


def test_only_who_joins_makes_a_group(clients: ConsumerClients) -> None:
    assert code_of(lambda: clients.heartbeat("a", 1)) == ErrorCode.GROUP_ID_NOT_FOUND
    assert code_of(lambda: clients.heartbeat("a", -1)) == ErrorCode.GROUP_ID_NOT_FOUND
    assert code_of(clients.describe) == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_has_a_largest_size(metadata: Metadata) -> None:
    clients = ConsumerClients(metadata, consumer_group_size_max=1)
    member = clients.member("a", "t")
    assert code_of(lambda: clients.member("b", "t")) == ErrorCode.GROUP_MAX_SIZE_REACHED
    member.beat()


# -- leaving -----------------------------------------------------------------------------------------------------


def test_a_member_that_leaves_is_gone_from_the_log(clients: ConsumerClients) -> None:
    member = clients.member("a", "t")
    reply = member.leave()
    assert (reply.member_id, reply.member_epoch) == ("a", -1)
    assert clients.shard.appended == [*member_tombstones(GROUP, "a"), group_record(GROUP, 3, 0)]
    assert clients.group.state_name == "Empty"
    assert [timer for timer in clients.shard.timers if timer[0].startswith("consumer")] == []  # type: ignore[index]


def test_a_member_that_is_not_heard_of_is_removed(clients: ConsumerClients) -> None:
    first = clients.member("a", "t")
    clients.member("b", "t")
    settle(first)
    clients.shard.advance(SESSION_MS - 1)
    first.beat()
    clients.shard.advance(1)
    assert clients.group.members.keys() == {"a"}
    first.beat()
    assert first.owned == {"t": {0, 1, 2, 3}}
    assert code_of(lambda: clients.heartbeat("b", 3)) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_can_have_its_own_session_and_interval(clients: ConsumerClients, metadata: Metadata) -> None:
    metadata.set_group_config(consumer_session_timeout_ms="50000", consumer_heartbeat_interval_ms="7000")
    member = clients.member("a", "t")
    assert member.beat().heartbeat_interval_ms == 7000
    clients.shard.advance(49_999)
    assert "a" in clients.group.members
    clients.shard.advance(1)
    assert "a" not in clients.group.members


def test_a_member_that_does_not_give_up_its_partitions_is_removed(clients: ConsumerClients) -> None:
    first = clients.member("a", "t")
    second = clients.member("b", "t")
    first.hold()
    for _ in range(3):
        clients.shard.advance(REBALANCE_MS // 3)
        second.beat()
        if "a" in clients.group.members:
            first.hold()
    assert clients.group.members.keys() == {"b"}
    settle(second)
    assert second.owned == {"t": {0, 1, 2, 3}}


# -- static members ----------------------------------------------------------------------------------------------


def test_a_static_member_is_back_with_what_it_had_and_no_new_epoch(clients: ConsumerClients) -> None:
    first = clients.member("a", "t", instance_id="i")
    second = clients.member("b", "t")
    settle(first, second)
    owned, epoch = first.owned, clients.group.group_epoch
    first.leave(-2)
    assert clients.group.members["a"].member_epoch == -2
    again = clients.member("c", "t", instance_id="i")
    assert (again.owned, again.epoch, clients.group.group_epoch) == (owned, epoch, epoch)
    assert clients.group.members.keys() == {"b", "c"}
    assert code_of(lambda: clients.heartbeat("a", epoch, instance_id="i")) == ErrorCode.FENCED_INSTANCE_ID
    settle(again, second)
    assert clients.group.state_name == "Stable"


def test_an_instance_id_has_one_owner(clients: ConsumerClients) -> None:
    clients.member("a", "t", instance_id="i")
    assert code_of(lambda: clients.member("b", "t", instance_id="i")) == ErrorCode.UNRELEASED_INSTANCE_ID
    assert code_of(lambda: clients.heartbeat("b", -1, instance_id="i")) == ErrorCode.FENCED_INSTANCE_ID
    assert code_of(lambda: clients.heartbeat("a", -1, instance_id="j")) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_stays_away_is_removed(clients: ConsumerClients) -> None:
    member = clients.member("a", "t", instance_id="i")
    member.leave(-2)
    clients.shard.advance(SESSION_MS)
    assert clients.group.members == {}


# -- restarts ----------------------------------------------------------------------------------------------------


def test_members_go_on_after_a_restart_as_if_nothing_had_been(clients: ConsumerClients) -> None:
    first = clients.member("a", "t")
    second = clients.member("b", "t", instance_id="i", rack_id="r")
    reply = first.hold()
    before = clients.describe()
    clients.shard.restart()
    assert clients.describe() == before
    first.take(reply)
    settle(first, second)
    assert clients.group.state_name == "Stable"
    clients.shard.restart()
    first.beat()
    assert clients.shard.appended == []
    clients.shard.advance(SESSION_MS)
    assert clients.group.members == {}


# -- offsets -----------------------------------------------------------------------------------------------------


def test_commits_come_from_members_at_their_epoch(clients: ConsumerClients) -> None:
    member = clients.member("a", "t")
    assert clients.commit("a", member.epoch, "t", 0) == [0]
    assert code_of(lambda: clients.commit("a", 9, "t", 0)) == ErrorCode.STALE_MEMBER_EPOCH
    assert code_of(lambda: clients.commit("b", 2, "t", 0)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert code_of(lambda: clients.commit("", -1, "t", 0)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert code_of(lambda: clients.commit("a", 2, "t", 0, version=8)) == ErrorCode.UNSUPPORTED_VERSION


def test_a_commit_that_was_under_way_counts_for_partitions_that_were_kept(clients: ConsumerClients) -> None:
    first = clients.member("a", "t")
    second = clients.member("b", "t")
    settle(first, second)
    (kept,), (moved,) = list(first.owned.values()), list(second.owned.values())
    assert clients.commit("a", 2, "t", *kept) == [0, 0]
    assert code_of(lambda: clients.commit("a", 2, "t", *moved)) == ErrorCode.STALE_MEMBER_EPOCH
    assert code_of(lambda: clients.commit("b", 2, "t", *moved)) == ErrorCode.STALE_MEMBER_EPOCH


def test_a_group_without_members_takes_offsets_and_can_be_deleted(clients: ConsumerClients) -> None:
    member = clients.member("a", "t")
    delete = lambda: clients.shard.run(lambda coordinator, now: coordinator.delete_group(GROUP, now))  # noqa: E731
    assert code_of(delete) == ErrorCode.NON_EMPTY_GROUP
    member.leave()
    assert clients.commit("", -1, "t", 0) == [0]
    delete()
    clients.shard.restart()
    assert code_of(clients.describe) == ErrorCode.GROUP_ID_NOT_FOUND
    assert clients.member("a", "t").epoch == 2


# -- describing --------------------------------------------------------------------------------------------------


def test_a_group_describes_what_members_have_and_should_have(clients: ConsumerClients) -> None:
    clients.member("a", "t", rack_id="r")
    clients.member("b", "t")
    clients.heartbeat("a", 2)
    described = clients.describe()
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Reconciling", 3, 3)
    member = next(member for member in described.members if member.member_id == "a")
    assert member.assignment.topic_partitions[0].partitions == [0, 1, 2, 3]
    assert len(member.target_assignment.topic_partitions[0].partitions) == 2
    assert (member.rack_id, member.member_type, member.subscribed_topic_names) == ("r", 1, ["t"])
    listed = clients.shard.coordinator.list_groups(frozenset({"reconciling"}), frozenset({"consumer"}))
    assert [(group.group_id, group.group_type, group.protocol_type) for group in listed] == [
        (GROUP, "consumer", "consumer")
    ]
