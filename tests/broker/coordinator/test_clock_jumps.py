"""The wall clock jumps, while the broker runs or between two runs: nothing that was used since is lost, and whatever
is not used any more goes in the end.
"""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from classic_client import ClassicClients
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from transaction_client import TIMEOUT_MS, TransactionClients

from oncelog.broker.coordinator.txn.coordinator import RECONNECT_MS
from oncelog.broker.coordinator.txn.requests import TransactionSettings
from oncelog.broker.coordinator.txn.state import State

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
CHECK_MS = 600_000
RETENTION_MS = 7 * DAY_MS
JUMPS = [30 * DAY_MS, -30 * DAY_MS, 8 * DAY_MS, -HOUR_MS]


@pytest.fixture
def groups() -> ClassicClients:
    return ClassicClients(offsets_retention_ms=RETENTION_MS, offsets_retention_check_interval_ms=CHECK_MS)


@pytest.fixture
def transactions() -> TransactionClients:
    return TransactionClients(TransactionSettings(expiration_ms=RETENTION_MS, expiration_check_ms=CHECK_MS))


# -- offsets ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jump_ms", JUMPS)
def test_an_offset_that_is_committed_after_a_jump_survives_a_restart(groups: ClassicClients, jump_ms: int) -> None:
    groups.shard.set_wall_clock(jump_ms)
    groups.commit({("t", 0): 1})
    groups.shard.restart()
    groups.shard.advance(RETENTION_MS - 2 * CHECK_MS)
    assert groups.fetch() == {("t", 0): 1}


@pytest.mark.parametrize("jump_ms", JUMPS)
def test_a_jump_expires_no_offset_while_the_broker_runs(groups: ClassicClients, jump_ms: int) -> None:
    groups.commit({("t", 0): 1})
    groups.shard.set_wall_clock(jump_ms)
    groups.shard.advance(RETENTION_MS - 1)
    assert groups.fetch() == {("t", 0): 1}
    groups.shard.advance(CHECK_MS)
    assert groups.fetch() == {}, "nor does it keep one for ever"


@pytest.mark.parametrize("jump_ms", JUMPS)
def test_a_jump_between_two_runs_expires_no_offset(groups: ClassicClients, jump_ms: int) -> None:
    groups.commit({("t", 0): 1})
    groups.shard.set_wall_clock(jump_ms)
    groups.shard.restart()
    groups.shard.advance(RETENTION_MS - 1)
    assert groups.fetch() == {("t", 0): 1}
    groups.shard.advance(CHECK_MS)
    assert groups.fetch() == {}


def test_an_offset_ages_through_restarts(groups: ClassicClients) -> None:
    groups.commit({("t", 0): 1})
    for _ in range(6):
        groups.shard.advance(DAY_MS)
        groups.commit({("t", 0): 1}, group_id="alive")
        groups.shard.restart()
    assert groups.fetch() == {("t", 0): 1}
    groups.shard.advance(DAY_MS + CHECK_MS)
    assert groups.fetch() == {}
    assert groups.fetch(group_id="alive") == {("t", 0): 1}


def test_a_jump_does_not_age_an_empty_group(groups: ClassicClients) -> None:
    """The offsets of an empty group expire as of when it became empty, which its own record says."""
    (member,) = groups.stable(b"a")
    groups.commit({("t", 0): 1}, member_id=member, generation=1)
    groups.shard.set_wall_clock(30 * DAY_MS)
    groups.leave(member)
    groups.shard.restart()
    groups.shard.advance(RETENTION_MS - 2 * CHECK_MS)
    assert groups.fetch() == {("t", 0): 1}


@pytest.mark.parametrize("jump_ms", JUMPS)
def test_a_jump_does_not_shorten_a_retention_that_the_client_gave(groups: ClassicClients, jump_ms: int) -> None:
    groups.commit({("t", 0): 1}, retention_ms=2 * HOUR_MS, version=4)
    groups.shard.set_wall_clock(jump_ms)
    groups.shard.advance(2 * HOUR_MS - 1)
    assert groups.fetch() == {("t", 0): 1}
    groups.shard.advance(CHECK_MS)
    assert groups.fetch() == {}


# -- transactional ids and transactions ------------------------------------------------------------------------


@pytest.mark.parametrize("restart_first", [False, True])
@pytest.mark.parametrize("jump_ms", JUMPS)
def test_a_transactional_id_that_is_used_after_a_jump_survives(
    transactions: TransactionClients, jump_ms: int, restart_first: bool
) -> None:
    producer = transactions.init()
    transactions.set_wall_clock(jump_ms)
    if restart_first:
        transactions.restart()
    transactions.transact(producer)
    transactions.restart()
    transactions.advance(RETENTION_MS - 2 * CHECK_MS)
    assert transactions.state().producer_id == producer.producer_id


@pytest.mark.parametrize("jump_ms", JUMPS)
def test_a_jump_neither_ends_nor_prolongs_a_transaction(transactions: TransactionClients, jump_ms: int) -> None:
    transactions.add(transactions.init())
    transactions.advance(TIMEOUT_MS // 2)
    transactions.set_wall_clock(jump_ms)
    transactions.advance(TIMEOUT_MS // 2 - 1)
    assert transactions.state().state == State.ONGOING
    transactions.advance(1)
    assert transactions.state().state == State.PREPARE_ABORT


@pytest.mark.parametrize("jump_ms", JUMPS)
def test_a_transaction_that_is_open_over_a_jump_and_a_restart_has_its_timeout(
    transactions: TransactionClients, jump_ms: int
) -> None:
    transactions.add(transactions.init())
    transactions.set_wall_clock(jump_ms)
    transactions.restart()
    transactions.advance(TIMEOUT_MS - 1)
    assert transactions.state().state == State.ONGOING
    transactions.advance(1)
    assert transactions.state().state == State.PREPARE_ABORT


def test_the_producer_of_an_open_transaction_has_time_to_come_back_after_a_restart(
    transactions: TransactionClients,
) -> None:
    transactions.add(transactions.init())
    transactions.advance(TIMEOUT_MS - 10)
    transactions.restart()
    transactions.advance(RECONNECT_MS - 1)
    assert transactions.state().state == State.ONGOING
    transactions.advance(1)
    assert transactions.state().state == State.PREPARE_ABORT


def test_what_is_stored_is_wall_clock_time(transactions: TransactionClients, groups: ClassicClients) -> None:
    for shard in (transactions, groups.shard):
        shard.set_wall_clock(30 * DAY_MS)
    transactions.add(transactions.init())
    assert transactions.state().started_ms == transactions.state().updated_ms == transactions.wall_ms
    groups.commit({("t", 0): 1}, retention_ms=5, version=4)
    (record,) = groups.shard.appended
    assert record.value.commit_timestamp == groups.shard.wall_ms
    assert record.value.expire_timestamp == groups.shard.wall_ms + 5


# -- anything in any order -------------------------------------------------------------------------------------


class Jumps(RuleBasedStateMachine):
    """Simple groups that commit now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.clients = ClassicClients(offsets_retention_ms=RETENTION_MS, offsets_retention_check_interval_ms=CHECK_MS)
        self.idle_ms: dict[str, int] = {}
        """How long the broker has been running since a group committed."""
        self.unsettled: set[str] = set()
        """Groups that have not committed since the wall clock jumped."""
        self.in_doubt: set[str] = set()
        """Those of them whose commits were loaded since: their age cannot be known any more."""
        self.run_ms = 0

    @rule(group=st.sampled_from("abc"))
    def commit(self, group: str) -> None:
        self.clients.commit({("t", 0): 1}, group_id=group)
        self.idle_ms[group] = 0
        self.unsettled.discard(group)
        self.in_doubt.discard(group)

    @rule(duration_ms=st.sampled_from([1, CHECK_MS, 2 * DAY_MS, RETENTION_MS - CHECK_MS, RETENTION_MS]))
    def time_passes(self, duration_ms: int) -> None:
        self.clients.shard.advance(duration_ms)
        self.run_ms += duration_ms
        for group in self.idle_ms:
            self.idle_ms[group] += duration_ms

    @rule(change_ms=st.sampled_from(JUMPS))
    def jump(self, change_ms: int) -> None:
        self.clients.shard.set_wall_clock(change_ms)
        self.unsettled |= self.idle_ms.keys()

    @rule()
    def restart(self) -> None:
        self.clients.shard.restart()
        self.in_doubt |= self.unsettled
        self.run_ms = 0

    @invariant()
    def what_was_used_is_there_and_the_rest_goes(self) -> None:
        for group, idle_ms in self.idle_ms.items():
            is_there = self.clients.fetch(group_id=group) == {("t", 0): 1}
            if idle_ms < RETENTION_MS and group not in self.in_doubt:
                assert is_there
            if min(idle_ms, self.run_ms) >= RETENTION_MS + CHECK_MS:
                assert not is_there


Jumps.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestJumps = Jumps.TestCase
