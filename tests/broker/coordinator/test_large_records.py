"""A request whose records are too large for the log is refused, and leaves no trace: neither in the log, nor in what
the coordinator only remembers.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

import hypothesis.strategies as st
import pytest
from classic_client import GROUP, ClassicClients
from consumer_client import ConsumerClients, Metadata
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, rule
from simulated_shard import SimulatedShard, Waiting
from transaction_client import T0, TransactionClients, refusal

from oncelog.broker.coordinator.contract import RecordsTooLarge
from oncelog.broker.coordinator.group.classic.classic_group import ClassicGroup
from oncelog.broker.coordinator.txn.state import ProducerIdentity, State
from oncelog.protocol.codec import encode
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from oncelog.protocol.schema import Struct

LIMIT = 4000
LARGE = 5000


def state_of(thing: Any) -> Any:
    """Everything that an object has and refers to, as values that can be compared."""
    if isinstance(thing, Mapping | Counter):
        return {key: state_of(value) for key, value in thing.items()}
    if isinstance(thing, set | frozenset):
        return set(thing)
    if isinstance(thing, list | tuple):
        return [state_of(value) for value in thing]
    if thing is None or isinstance(thing, str | bytes | int | Enum | Struct) or callable(thing):
        return thing
    names = getattr(thing, "__slots__", None) or vars(thing)
    return type(thing).__name__, {name: state_of(getattr(thing, name)) for name in names}


def memory_of(shard: SimulatedShard) -> Any:
    coordinator = shard.coordinator
    parts = ("_groups", "_offsets") if hasattr(coordinator, "_groups") else ("_transactions", "_memories", "_seen")
    return [state_of(getattr(coordinator, part)) for part in parts]


def check_refused(shard: SimulatedShard, operation: Callable[[], Any], limit: int = LIMIT) -> None:
    """With a log that takes only so many bytes at once."""
    before = memory_of(shard), dict(shard.timers), list(shard.log), list(shard.parked)
    shard.batch_bytes_max = limit
    try:
        assert refusal(operation) == ErrorCode.UNKNOWN_SERVER_ERROR
    finally:
        shard.batch_bytes_max = sys.maxsize
    assert (memory_of(shard), dict(shard.timers), list(shard.log), list(shard.parked)) == before


def subscription(size: int) -> dict[str, bytes]:
    """Of a consumer, with so many bytes of user data."""
    return {"range": b"\0\1" + encode(ConsumerProtocolSubscription(topics=["t"], user_data=bytes(size)), 1)}


# -- classic groups --------------------------------------------------------------------------------------------


@pytest.fixture
def classic() -> ClassicClients:
    return ClassicClients()


def joined(classic: ClassicClients, count: int) -> list[str]:
    """Members of a generation that has no assignment yet, the leader first."""
    waiting = [classic.join(classic.new_id()) for _ in range(count)]
    classic.shard.advance(10_000)
    members = sorted((wait.reply for wait in waiting), key=lambda reply: reply.member_id != reply.leader)
    return [member.member_id for member in members]


def test_a_leader_may_hand_in_a_smaller_assignment(classic: ClassicClients) -> None:
    leader, follower = joined(classic, 2)
    waiting = classic.sync(follower, 1)
    check_refused(classic.shard, lambda: classic.sync(leader, 1, {follower: bytes(LARGE)}))
    assert not waiting.done, "the follower has done nothing wrong"
    assert classic.sync(leader, 1, {follower: b"small"}).error_code == 0
    assert waiting.reply.assignment == b"small"


def test_a_leader_whose_assignment_is_refused_may_leave(classic: ClassicClients) -> None:
    leader, follower = joined(classic, 2)
    waiting = classic.sync(follower, 1)
    check_refused(classic.shard, lambda: classic.sync(leader, 1, {follower: bytes(LARGE)}))
    classic.leave(leader)
    assert waiting.reply.error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_leader_whose_assignment_is_refused_and_who_is_silent_is_removed(classic: ClassicClients) -> None:
    leader, follower = joined(classic, 2)
    waiting = classic.sync(follower, 1)
    check_refused(classic.shard, lambda: classic.sync(leader, 1, {follower: bytes(LARGE)}))
    classic.shard.advance(60_000)
    assert waiting.reply.error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_that_makes_its_group_too_large_is_refused_and_the_others_go_on(classic: ClassicClients) -> None:
    (member,) = classic.stable(b"a")
    classic.shard.batch_bytes_max = LIMIT
    large = subscription(LARGE)
    new_id = classic.new_id(protocols=subscription(10))
    before = memory_of(classic.shard), len(classic.shard.log)
    assert classic.join(new_id, protocols=large).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert classic.join(protocols=large).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert classic.join(member, protocols=large).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert classic.join(group_id="new", protocols=large).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert (memory_of(classic.shard), len(classic.shard.log)) == before
    assert classic.heartbeat(member, 1) == 0


def test_members_are_too_many_when_their_record_is_too_large(classic: ClassicClients) -> None:
    classic.shard.batch_bytes_max = LIMIT
    replies = [classic.join(classic.new_id(), protocols=subscription(500), version=9) for _ in range(10)]
    refused = [reply for reply in replies if not isinstance(reply, Waiting)]
    assert {reply.error_code for reply in refused} == {ErrorCode.GROUP_MAX_SIZE_REACHED}
    assert 3 <= len(replies) - len(refused) <= 6
    classic.shard.advance(10_000)
    leader = next(reply.reply for reply in replies if isinstance(reply, Waiting) and reply.reply.members)
    assert classic.sync(leader.member_id, 1, {leader.member_id: b"some"}).error_code == 0


def test_a_static_member_that_comes_back_too_large_keeps_its_place(classic: ClassicClients) -> None:
    waiting = classic.join(instance_id="i")
    classic.shard.advance(10_000)
    member = waiting.reply.member_id
    assert classic.sync(member, 1, {member: bytes(2000)}, instance_id="i").error_code == 0
    classic.shard.batch_bytes_max = LIMIT
    before = memory_of(classic.shard)
    back = classic.join(instance_id="i", protocols={"range": bytes(2000)})
    assert back.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert memory_of(classic.shard) == before
    assert classic.heartbeat(member, 1, instance_id="i") == 0
    assert classic.join(instance_id="i", protocols={"range": bytes(1000)}).error_code == 0


def test_the_estimate_of_a_group_is_never_too_small(classic: ClassicClients) -> None:
    """Whatever a group's members may join with, the leader of an empty assignment is not refused."""
    classic.shard.batch_bytes_max = LIMIT
    for number in range(40):
        text = "ä" * (number % 7) * 20
        classic.join(instance_id=f"{number}{text}", protocols={"range": bytes(number * 9), text or "p": b""})
        classic.join(protocols={"range": bytes(number)}, version=3)
    classic.shard.advance(10_000)
    group = classic.coordinator._groups.get(GROUP)
    assert isinstance(group, ClassicGroup)
    assert len(group.members) > 10
    assert group.leader_id is not None
    instance_id = group.members[group.leader_id].instance_id
    reply = classic.sync(group.leader_id, 1, {}, instance_id=instance_id, protocol_name=group.protocol)
    assert reply.error_code == 0


# -- consumer groups -------------------------------------------------------------------------------------------


@pytest.fixture
def consumers() -> ConsumerClients:
    return ConsumerClients(Metadata(t=4, u=2))


def test_a_subscription_that_is_too_large(consumers: ConsumerClients) -> None:
    names = [f"{number:010}" for number in range(LARGE // 10)]
    join = {"rebalance_timeout_ms": 1000, "topic_partitions": []}
    check_refused(consumers.shard, lambda: consumers.heartbeat("m", 0, subscribed_topic_names=names, **join))
    member = consumers.member("m", "t")
    check_refused(consumers.shard, lambda: consumers.heartbeat("m", member.epoch, subscribed_topic_names=names))
    member.beat()
    assert member.owned == {"t": {0, 1, 2, 3}}


def test_topics_that_come_while_a_request_is_refused_are_noticed_afterwards(consumers: ConsumerClients) -> None:
    member = consumers.member("m", "t", "v")
    consumers.metadata.set_topic("v", LARGE)
    check_refused(consumers.shard, lambda: consumers.heartbeat("m", member.epoch))
    member.beat()
    assert member.owned == {"t": {0, 1, 2, 3}, "v": set(range(LARGE))}


def test_a_regular_expression_that_matches_too_much() -> None:
    topics = {f"topic{number:0100}": 1 for number in range(LARGE // 100)}
    consumers = ConsumerClients(Metadata(**topics))
    join = {"rebalance_timeout_ms": 1000, "topic_partitions": [], "subscribed_topic_regex": "topic.*"}
    check_refused(consumers.shard, lambda: consumers.heartbeat("m", 0, **join))


def test_an_upgrade_that_is_too_large_leaves_the_classic_group_as_it_is() -> None:
    consumers = ConsumerClients(Metadata(t=4), initial_rebalance_delay_ms=0)
    classics = ClassicClients()
    classics.shard = shard = consumers.shard
    waiting = classics.join(classics.new_id(), protocols=subscription(LIMIT // 2))
    shard.advance(0)
    assert waiting.done
    join = {"rebalance_timeout_ms": 1000, "topic_partitions": [], "subscribed_topic_names": ["t", "x" * (LIMIT // 2)]}
    check_refused(shard, lambda: consumers.heartbeat("m", 0, **join))


def test_the_last_consumer_of_a_group_that_is_too_large_to_become_classic_is_removed() -> None:
    consumers = ConsumerClients(Metadata(t=4), initial_rebalance_delay_ms=0)
    classics = ClassicClients()
    classics.shard = shard = consumers.shard
    consumers.member("c", "t")
    for _ in range(4):
        large = subscription(LIMIT // 3)
        assert classics.join(classics.new_id(protocols=large), protocols=large).error_code == 0
    shard.batch_bytes_max = LIMIT
    consumers.heartbeat("c", -1)
    assert "c" not in consumers.group.members
    assert len(consumers.group.members) == 4


# -- offsets ---------------------------------------------------------------------------------------------------


def test_offsets_that_are_too_large(classic: ClassicClients) -> None:
    check_refused(classic.shard, lambda: classic.commit({("t", 0): 1}, group_id="g" * LARGE))
    check_refused(classic.shard, lambda: classic.commit({("t", 0): 1}, group_id="g" * LARGE, producer_id=7))


# -- transactions ----------------------------------------------------------------------------------------------


@pytest.fixture
def transactions() -> TransactionClients:
    return TransactionClients()


def test_a_transactional_id_that_is_too_large_is_not_remembered(transactions: TransactionClients) -> None:
    check_refused(transactions, lambda: transactions.init("x" * LARGE))


def test_a_transaction_with_too_many_partitions(transactions: TransactionClients) -> None:
    partitions = [("t", number) for number in range(LARGE // 4)]
    producer = transactions.init()
    check_refused(transactions, lambda: transactions.add(producer, *partitions, connection=2))
    transactions.add(producer, T0)
    check_refused(transactions, lambda: transactions.add(producer, *partitions, connection=3))
    waiting = transactions.commit(producer)
    transactions.write_markers()
    assert waiting.reply == producer


@pytest.mark.parametrize("ends", ["commit", "timeout", "taken over"])
@pytest.mark.parametrize("version", [0, 2])
def test_what_could_be_opened_can_be_ended(transactions: TransactionClients, version: int, ends: str) -> None:
    """A transaction that just fits, with everything that its end adds to the record."""
    transactions.batch_bytes_max = LIMIT
    producer = transactions.init()
    producer = transactions.set_epoch(32765 if version else 32766)
    number = 0
    while True:
        try:
            transactions.add(producer, ("t", number), version=version)
        except RecordsTooLarge:
            break
        number += 1
    assert number > LIMIT / 5
    match ends:
        case "commit":
            transactions.commit(producer, version=version)
        case "timeout":
            transactions.advance(60_000)
        case _:
            transactions.init()
    transactions.write_markers()
    assert transactions.state().state in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT, State.EMPTY)


# -- anything in any order -------------------------------------------------------------------------------------


class Refusals(RuleBasedStateMachine):
    """Each request comes twice: first to a log that may be too small for it."""

    def __init__(self) -> None:
        super().__init__()
        self.consumers = ConsumerClients(Metadata(t=4, u=2), initial_rebalance_delay_ms=0)
        self.classics = ClassicClients()
        self.classics.shard = self.shard = self.consumers.shard
        self.members: dict[str, str] = {}
        """Ids of classic members, by the name that the test has for them."""
        self.transactions = TransactionClients()
        self.producers: dict[str, ProducerIdentity] = {}

    limits = st.sampled_from([100, 200, 300, 500, 800, 1200, 2000])
    sizes = st.sampled_from([0, 50, 200, 400, 1000])

    def request(self, shard: SimulatedShard, limit: int, operation: Callable[[], Any]) -> Any:
        before = memory_of(shard), dict(shard.timers), len(shard.log)
        shard.batch_bytes_max = limit
        try:
            return operation()
        except RecordsTooLarge:
            assert (memory_of(shard), dict(shard.timers), len(shard.log)) == before
        except KafkaError:
            return None
        finally:
            shard.batch_bytes_max = sys.maxsize
        try:
            return operation()
        except KafkaError:
            return None

    @rule(name=st.sampled_from("abc"), size=sizes, limit=limits, static=st.booleans())
    def join(self, name: str, size: int, limit: int, static: bool) -> None:
        instance_id = name if static else None
        member_id = "" if static else self.members.get(name, "")
        operation = lambda: self.classics.join(  # noqa: E731
            member_id, protocols=subscription(size), instance_id=instance_id
        )
        reply = self.request(self.shard, limit, operation)
        self.shard.advance(0)
        answer = getattr(reply, "reply", reply)
        if answer is not None and answer.member_id:
            self.members[name] = answer.member_id

    @rule(name=st.sampled_from("abc"), size=sizes, limit=limits)
    def sync(self, name: str, size: int, limit: int) -> None:
        group = self.shard.coordinator._groups.get(GROUP)
        generation = getattr(group, "generation", 1)
        member_id = self.members.get(name, "")
        self.request(self.shard, limit, lambda: self.classics.sync(member_id, generation, {member_id: bytes(size)}))

    @rule(name=st.sampled_from("abc"))
    def leave(self, name: str) -> None:
        self.classics.leave(self.members.pop(name, "nobody"))

    @rule(name=st.sampled_from("de"), size=sizes, limit=limits, regex=st.booleans())
    def heartbeat(self, name: str, size: int, limit: int, regex: bool) -> None:
        group = self.shard.coordinator._groups.get(GROUP)
        member = getattr(group, "members", {}).get(name)
        subscribed = {"subscribed_topic_regex": "t|u"} if regex else {"subscribed_topic_names": ["t", "x" * size]}
        joining = {} if member else {"rebalance_timeout_ms": 1000, "topic_partitions": []}
        epoch = member.member_epoch if member else 0
        self.request(self.shard, limit, lambda: self.consumers.heartbeat(name, epoch, **subscribed, **joining))

    @rule(size=sizes, limit=limits, producer_id=st.sampled_from([-1, 7]))
    def commit(self, size: int, limit: int, producer_id: int) -> None:
        offsets = {("t" * (size + 1), partition): 1 for partition in range(3)}
        self.request(
            self.shard, limit, lambda: self.classics.commit(offsets, group_id="other", producer_id=producer_id)
        )

    @rule(name=st.sampled_from("xy"), limit=limits)
    def init(self, name: str, limit: int) -> None:
        if name not in self.producers:
            identity = self.request(self.transactions, limit, lambda: self.transactions.init(name * 80))
            self.producers[name] = identity

    @rule(name=st.sampled_from("xy"), count=st.integers(1, 100), limit=limits, version=st.sampled_from([0, 2]))
    def add(self, name: str, count: int, limit: int, version: int) -> None:
        if name in self.producers:
            partitions = [("t", number) for number in range(count)]
            self.request(
                self.transactions,
                limit,
                lambda: self.transactions.add(
                    self.producers[name], *partitions, version=version, transactional_id=name * 80
                ),
            )

    @rule(duration_ms=st.sampled_from([1, 3000, 10_000, 60_000]))
    def time_passes(self, duration_ms: int) -> None:
        self.shard.advance(duration_ms)


Refusals.TestCase.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
TestRefusals = Refusals.TestCase
