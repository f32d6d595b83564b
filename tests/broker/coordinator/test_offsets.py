"""Offsets of groups: committing, fetching, deleting, transactions, expiration."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import pytest
from classic_client import DELAY_MS, GROUP, ClassicClients, subscription

from oncelog.broker.coordinator.contract import ReplayContext
from oncelog.broker.coordinator.group.common import Committer
from oncelog.broker.coordinator.group.offsets import OffsetKey, TopicSelection
from oncelog.broker.coordinator.group.settings import OFFSETS_AT_ONCE
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.group_records import OffsetCommitKey, OffsetCommitValue

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
CHECK_MS = 10 * MINUTE_MS


@pytest.fixture
def clients() -> ClassicClients:
    return ClassicClients(
        offsets_retention_ms=HOUR_MS,
        offsets_retention_check_interval_ms=CHECK_MS,
        session_timeout_ms_max=4 * HOUR_MS,
    )


def code_of(operation: object) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        operation()  # type: ignore[operator]
    return caught.value.code


# -- committing ----------------------------------------------------------------------------------------------


def test_commit_of_nobodys_member_makes_a_simple_group(clients: ClassicClients) -> None:
    assert clients.commit({("t", 0): 5, ("t", 1): 6}, metadata="note") == [0, 0]
    record = clients.shard.appended[1]
    assert record.key == OffsetCommitKey(group=GROUP, topic="t", partition=1)
    assert record.value == OffsetCommitValue(
        offset=6, metadata="note", commit_timestamp=clients.shard.wall_ms, leader_epoch=-1
    )
    assert record.value_version == 4
    assert clients.fetch() == {("t", 0): 5, ("t", 1): 6}
    assert clients.describe().group_state == "Empty"
    assert clients.fetch({"t": [1, 2], "u": [0]}) == {("t", 1): 6, ("t", 2): -1, ("u", 0): -1}


def test_commit_with_a_retention_keeps_it_in_the_old_format(clients: ClassicClients) -> None:
    clients.commit({("t", 0): 5}, version=4, retention_ms=1000)
    (record,) = clients.shard.appended
    assert record.value_version == 1
    assert record.value.expire_timestamp == clients.shard.wall_ms + 1000


def test_commit_of_members(clients: ClassicClients) -> None:
    leader, follower = clients.stable(b"a", b"b")
    offsets = {("t", 0): 5}
    assert clients.commit(offsets, member_id=leader, generation=1) == [0]
    assert code_of(lambda: clients.commit(offsets, member_id=leader, generation=2)) == ErrorCode.ILLEGAL_GENERATION
    assert code_of(lambda: clients.commit(offsets, member_id=leader)) == ErrorCode.ILLEGAL_GENERATION
    assert code_of(lambda: clients.commit(offsets, member_id="x", generation=1)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert code_of(lambda: clients.commit(offsets)) == ErrorCode.UNKNOWN_MEMBER_ID
    # Members give up partitions, and commit before, while a rebalance waits for them.
    clients.join(leader)
    assert clients.commit(offsets, member_id=follower, generation=1) == [0]
    clients.join(follower)
    assert code_of(lambda: clients.commit(offsets, member_id=leader, generation=2)) == ErrorCode.REBALANCE_IN_PROGRESS


def test_an_empty_group_takes_commits_without_a_generation(clients: ClassicClients) -> None:
    (member,) = clients.stable(b"a")
    clients.leave(member)
    assert clients.describe().group_state == "Empty"
    assert clients.commit({("t", 0): 5}, member_id="whoever") == [0]
    assert clients.fetch() == {("t", 0): 5}


def test_commit_of_a_static_member_that_was_replaced(clients: ClassicClients) -> None:
    join = clients.join(instance_id="one")
    clients.shard.advance(DELAY_MS)
    old = join.reply.member_id
    clients.sync(old, 1, {}, instance_id="one")
    clients.join(instance_id="one")
    commit = lambda: clients.commit({("t", 0): 1}, member_id=old, generation=1, instance_id="one")  # noqa: E731
    assert code_of(commit) == ErrorCode.FENCED_INSTANCE_ID


def test_commit_to_a_group_that_does_not_exist(clients: ClassicClients) -> None:
    commit = lambda version: clients.commit({("t", 0): 1}, member_id="m", generation=1, version=version)  # noqa: E731
    assert code_of(lambda: commit(8)) == ErrorCode.ILLEGAL_GENERATION
    assert code_of(lambda: commit(9)) == ErrorCode.GROUP_ID_NOT_FOUND


def test_metadata_has_a_limit(clients: ClassicClients) -> None:
    assert clients.commit({("t", 0): 1}, metadata="x" * 4096) == [0]
    assert clients.commit({("t", 0): 2}, metadata="x" * 4097) == [ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert clients.fetch() == {("t", 0): 1}


def test_nothing_to_commit_is_no_mistake(clients: ClassicClients) -> None:
    assert clients.commit({}) == []
    assert clients.fetch({}) == {}


def test_offsets_of_an_earlier_topic_of_the_name_are_not_found_by_id(clients: ClassicClients) -> None:
    value = OffsetCommitValue(offset=5, topic_id=b"1" * 16)
    context = ReplayContext(0, clients.shard.now)
    clients.coordinator._offsets._replay(OffsetCommitKey(group=GROUP, topic="t"), value, context)

    def fetch(topic_id: bytes) -> bool:
        selection = [TopicSelection("t", [0], topic_id)]
        (topic,) = clients.shard.run(
            lambda coordinator, now: coordinator.fetch_offsets(Committer(GROUP), selection, now, require_stable=False)
        )
        return topic.offsets[0].committed is not None

    assert [fetch(topic_id) for topic_id in (b"1" * 16, b"2" * 16, bytes(16))] == [True, False, True]


# -- transactions --------------------------------------------------------------------------------------------


def test_transactional_offsets_are_pending_until_the_marker(clients: ClassicClients) -> None:
    clients.commit({("t", 0): 1})
    assert clients.commit({("t", 0): 5}, producer_id=7) == [0]
    assert clients.fetch() == {("t", 0): 1}
    assert clients.fetch({"t": [0]}, require_stable=True) == {("t", 0): -ErrorCode.UNSTABLE_OFFSET_COMMIT}
    assert clients.fetch(require_stable=True) == {("t", 0): -ErrorCode.UNSTABLE_OFFSET_COMMIT}
    clients.shard.restart()
    assert clients.fetch({"t": [0]}, require_stable=True) == {("t", 0): -ErrorCode.UNSTABLE_OFFSET_COMMIT}
    clients.shard.end_transaction(7, committed=True)
    assert clients.fetch(require_stable=True) == {("t", 0): 5}
    clients.shard.restart()
    assert clients.fetch(require_stable=True) == {("t", 0): 5}


def test_aborted_offsets_are_gone(clients: ClassicClients) -> None:
    clients.commit({("t", 0): 5}, producer_id=7)
    clients.shard.end_transaction(7, committed=False)
    assert clients.fetch({"t": [0]}, require_stable=True) == {("t", 0): -1}
    clients.shard.end_transaction(7, committed=True)
    assert clients.fetch({"t": [0]}) == {("t", 0): -1}


def test_later_commit_wins_over_an_earlier_one_of_a_transaction(clients: ClassicClients) -> None:
    clients.commit({("t", 0): 5}, producer_id=7)
    clients.commit({("t", 0): 9})
    clients.shard.end_transaction(7, committed=True)
    assert clients.fetch() == {("t", 0): 9}


def test_transactions_of_two_producers_do_not_mix(clients: ClassicClients) -> None:
    clients.commit({("t", 0): 5}, producer_id=7)
    clients.commit({("t", 0): 6, ("t", 1): 6}, producer_id=8)
    clients.shard.end_transaction(8, committed=True)
    assert clients.fetch({"t": [0, 1]}, require_stable=True) == {
        ("t", 0): -ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ("t", 1): 6,
    }
    clients.shard.end_transaction(7, committed=False)
    assert clients.fetch(require_stable=True) == {("t", 0): 6, ("t", 1): 6}


def test_producer_of_a_former_member_is_fenced(clients: ClassicClients) -> None:
    (member,) = clients.stable(b"a")
    offsets = {("t", 0): 5}

    def commit(**committer: object) -> object:
        return lambda: clients.commit(offsets, producer_id=7, **committer)  # type: ignore[arg-type]

    assert code_of(commit(member_id=member, generation=0)) == ErrorCode.ILLEGAL_GENERATION
    assert code_of(commit(member_id="x", generation=1)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert code_of(commit(member_id=member, generation=1, instance_id="i")) == ErrorCode.UNKNOWN_MEMBER_ID
    assert code_of(commit(member_id="m", generation=1, group_id="nobody")) == ErrorCode.ILLEGAL_GENERATION
    assert clients.commit(offsets, producer_id=7, member_id=member, generation=1) == [0]
    # Producers before KIP-447 say nothing of their consumer.
    assert clients.commit(offsets, producer_id=7) == [0]
    clients.join(member)
    # The state of the group does not matter, only that the member is of its generation.
    assert clients.commit(offsets, producer_id=7, member_id=member, generation=2) == [0]


# -- deleting ------------------------------------------------------------------------------------------------


def delete(clients: ClassicClients, *partitions: tuple[str, int]) -> list[ErrorCode]:
    codes: list[ErrorCode] = clients.shard.run(
        lambda coordinator, now: coordinator.delete_offsets(GROUP, partitions, now)
    )
    return codes


def test_offsets_of_consumed_topics_cannot_be_deleted(clients: ClassicClients) -> None:
    assert code_of(lambda: delete(clients, ("t", 0))) == ErrorCode.GROUP_ID_NOT_FOUND
    (member,) = clients.stable(b"a")
    clients.commit({("t", 0): 1, ("u", 0): 2}, member_id=member, generation=1)
    assert delete(clients, ("t", 0), ("u", 0), ("u", 1)) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, 0, 0]
    assert len(clients.shard.appended) == 1
    assert clients.fetch() == {("t", 0): 1}
    clients.leave(member)
    assert delete(clients, ("t", 0)) == [0]
    assert clients.fetch() == {}


def test_subscriptions_that_cannot_be_read_may_be_of_any_topic(clients: ClassicClients) -> None:
    (member,) = clients.stable(b"a", protocols={"range": b"?"})
    clients.commit({("u", 0): 2}, member_id=member, generation=1)
    assert delete(clients, ("u", 0)) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]


def test_offsets_of_a_group_of_another_kind_stay_while_it_has_members(clients: ClassicClients) -> None:
    clients.join(clients.new_id(protocol_type="connect"), protocol_type="connect")
    assert code_of(lambda: delete(clients, ("t", 0))) == ErrorCode.NON_EMPTY_GROUP


def test_pending_offsets_are_deleted_too(clients: ClassicClients) -> None:
    clients.commit({("t", 0): 1}, producer_id=7)
    assert delete(clients, ("t", 0)) == [0]
    clients.shard.end_transaction(7, committed=True)
    assert clients.fetch({"t": [0]}) == {("t", 0): -1}


def test_offsets_go_with_their_topic(clients: ClassicClients) -> None:
    clients.commit({("t", 0): 1, ("t", 1): 1, ("u", 0): 2})
    clients.commit({("t", 0): 1}, group_id="other")
    assert forget(clients, lambda topic, _: topic == "t") == 3
    assert len(clients.shard.appended) == 3
    clients.shard.restart()
    assert clients.fetch() == {("u", 0): 2}
    assert clients.fetch(group_id="other") == {}


def test_offsets_of_topics_that_do_not_exist_any_more_are_found(clients: ClassicClients) -> None:
    clients.commit({("t", 0): 1, ("u", 0): 2, ("u", 1): 3})
    clients.commit({("gone", 0): 1}, producer_id=7)
    assert forget(clients, lambda topic, _: topic != "t") == 3
    clients.shard.end_transaction(7, committed=True)
    assert clients.fetch() == {("t", 0): 1}


@pytest.mark.parametrize("producer_id", [-1, 7])
def test_offsets_of_a_topic_that_was_made_anew_meanwhile_stay(clients: ClassicClients, producer_id: int) -> None:
    clients.commit({("t", 0): 1, ("t", 1): 1})
    keys = list(clients.shard.coordinator.offset_keys())
    before = len(clients.shard.log)
    clients.commit({("t", 0): 2}, producer_id=producer_id)
    assert forget(clients, lambda *_: True, keys, before) == 1
    clients.shard.end_transaction(7, committed=True)
    assert clients.fetch() == {("t", 0): 2}


def forget(
    clients: ClassicClients,
    is_gone: Callable[[str, bytes], bool],
    keys: Sequence[OffsetKey] | None = None,
    before: int = sys.maxsize,
) -> int:
    """How many offsets went."""
    some = list(clients.shard.coordinator.offset_keys()) if keys is None else keys
    count: int = clients.shard.run(lambda coordinator, now: coordinator.forget_offsets(some, before, is_gone, now))
    return count


# -- many at once --------------------------------------------------------------------------------------------

MANY = 3 * OFFSETS_AT_ONCE


def delete_some(clients: ClassicClients) -> bool:
    """Whether the group is gone."""
    deleted = clients.shard.run(lambda coordinator, now: coordinator.delete_group(GROUP, now))
    assert len(clients.shard.appended) <= OFFSETS_AT_ONCE + 1
    return deleted is not None


def test_a_group_with_many_offsets_is_deleted_in_steps(clients: ClassicClients) -> None:
    clients.commit({("t", index): 1 for index in range(MANY)})
    clients.commit({("t", MANY): 1, ("t", 0): 1}, producer_id=7)
    steps = 1
    while not delete_some(clients):
        steps += 1
    assert steps == 4
    clients.shard.end_transaction(7, committed=True)
    assert clients.fetch() == {}
    assert clients.describe().group_state == "Dead"


def test_nobody_uses_a_group_of_which_half_is_deleted(clients: ClassicClients) -> None:
    clients.commit({("t", index): 1 for index in range(MANY)})
    assert not delete_some(clients)
    busy = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert code_of(lambda: clients.fetch({"t": [0]})) == busy
    assert code_of(lambda: clients.commit({("t", 0): 2})) == busy
    assert code_of(lambda: clients.commit({("t", 0): 2}, producer_id=7)) == busy
    assert code_of(clients.new_id) == busy
    assert clients.commit({("t", 0): 2}, group_id="other") == [0]
    while not delete_some(clients):
        pass
    assert clients.commit({("t", 0): 2}) == [0]
    assert clients.fetch() == {("t", 0): 2}


def test_a_deletion_that_a_crash_interrupts_can_be_repeated(clients: ClassicClients) -> None:
    clients.commit({("t", index): 1 for index in range(MANY)})
    assert not delete_some(clients)
    clients.shard.restart()
    assert len(clients.fetch()) == MANY - OFFSETS_AT_ONCE
    while not delete_some(clients):
        pass
    assert clients.describe().group_state == "Dead"


def test_many_offsets_expire_in_steps(clients: ClassicClients) -> None:
    clients.commit({("t", index): 1 for index in range(MANY)})
    clients.shard.advance(HOUR_MS - 1)
    largest = 0
    for _ in range(5):
        clients.shard.advance_to_next_timer()
        largest = max(largest, len(clients.shard.appended))
    assert 0 < largest <= OFFSETS_AT_ONCE
    assert clients.fetch() == {}
    assert clients.describe().group_state == "Dead"


def test_what_is_committed_while_offsets_expire_stays(clients: ClassicClients) -> None:
    clients.commit({("t", index): 1 for index in range(MANY)})
    clients.shard.advance(HOUR_MS - 1)
    clients.shard.advance_to_next_timer()
    assert clients.shard.appended
    clients.commit({("t", MANY - 1): 2, ("u", 0): 1})
    clients.shard.advance(CHECK_MS)
    assert clients.fetch() == {("t", MANY - 1): 2, ("u", 0): 1}


# -- expiration ----------------------------------------------------------------------------------------------


def test_offsets_of_a_simple_group_expire_with_it(clients: ClassicClients) -> None:
    clients.commit({("t", 0): 1})
    clients.shard.advance(HOUR_MS - 1)
    assert clients.fetch() == {("t", 0): 1}
    clients.shard.advance(CHECK_MS)
    assert [record.value for record in clients.shard.appended] == [None, None]
    assert clients.describe().group_state == "Dead"


def test_offsets_of_an_empty_group_expire_as_of_when_it_became_empty(clients: ClassicClients) -> None:
    (member,) = clients.stable(b"a", session_ms=3 * HOUR_MS, rebalance_ms=3 * HOUR_MS)
    clients.commit({("t", 0): 1}, member_id=member, generation=1)
    clients.shard.advance(2 * HOUR_MS)
    assert clients.fetch() == {("t", 0): 1}
    clients.leave(member)
    clients.shard.advance(HOUR_MS - 1)
    assert clients.fetch() == {("t", 0): 1}
    clients.shard.advance(CHECK_MS)
    assert clients.describe().group_state == "Dead"


def test_topics_that_are_no_longer_consumed_expire_in_a_stable_group(clients: ClassicClients) -> None:
    session = {"session_ms": 3 * HOUR_MS, "rebalance_ms": 3 * HOUR_MS}
    (member,) = clients.stable(b"a", **session, protocols={"range": subscription("t")})
    clients.commit({("t", 0): 1, ("u", 0): 1}, member_id=member, generation=1)
    clients.shard.advance(HOUR_MS + CHECK_MS)
    assert clients.fetch() == {("t", 0): 1}


def test_expiry_that_the_client_gave(clients: ClassicClients) -> None:
    clients.commit({("t", 0): 1}, retention_ms=2 * HOUR_MS, version=4)
    clients.shard.advance(2 * HOUR_MS - CHECK_MS)
    assert clients.fetch() == {("t", 0): 1}
    clients.shard.advance(2 * CHECK_MS)
    assert clients.fetch() == {}


def test_pending_offsets_keep_a_group(clients: ClassicClients) -> None:
    clients.commit({("t", 0): 1})
    clients.commit({("t", 0): 2}, producer_id=7)
    clients.shard.advance(2 * HOUR_MS)
    assert clients.fetch() == {("t", 0): 1}
    clients.shard.end_transaction(7, committed=False)
    clients.shard.advance(CHECK_MS)
    assert clients.describe().group_state == "Dead"


def test_group_without_offsets_and_members_goes_at_the_next_check(clients: ClassicClients) -> None:
    clients.new_id()
    clients.shard.advance(CHECK_MS)
    assert clients.describe().group_state == "Dead"
