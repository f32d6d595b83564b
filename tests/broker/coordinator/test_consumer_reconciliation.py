"""Random lives of a consumer group: no partition ever has two owners, and in the end all have what they should.

A client owns a partition from the answer that gives it until the heartbeat in which it no longer reports it. It acts
upon answers late, loses some, dies, comes back; topics come, grow and go; the broker restarts from its log.
"""

from __future__ import annotations

from typing import Any

from consumer_client import GROUP, REBALANCE_MS, SESSION_MS, ConsumerClients, Metadata, topic_id
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from oncelog.broker.coordinator.group.consumer.consumer_group import ConsumerGroup, subscribed_topics
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.consumer_group_heartbeat import TopicPartitions

NAMES = ("t", "u", "events-v")
REGEX = "events-.*"
FENCES = (
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.FENCED_INSTANCE_ID,
)
subscriptions = st.one_of(st.just({"t"}), st.just({"t", "u"}), st.sets(st.sampled_from(NAMES)), st.just(REGEX))


class Member:
    def __init__(self, member_id: str, subscription: set[str] | str, instance_id: str | None) -> None:
        self.member_id = member_id
        self.subscription = subscription
        self.instance_id = instance_id
        self.epoch = 0
        self.owned: set[tuple[bytes, int]] = set()
        self.answer: Any = None
        """One that the client has not acted upon yet."""
        self.full = True
        """Whether the next heartbeat has to say everything, since an answer got lost."""
        self.last_heard_ms = 0

    def subscription_fields(self) -> dict[str, Any]:
        if isinstance(self.subscription, str):
            return {"subscribed_topic_regex": self.subscription, "subscribed_topic_names": []}
        return {"subscribed_topic_regex": "", "subscribed_topic_names": sorted(self.subscription)}

    def act(self) -> None:
        if self.answer is not None:
            self.owned = {
                (listed.topic_id, partition)
                for listed in self.answer.topic_partitions
                for partition in listed.partitions
            }
            self.answer = None

    def report(self) -> list[TopicPartitions]:
        topics = {topic for topic, _ in self.owned}
        return [
            TopicPartitions(topic_id=topic, partitions=sorted(part for other, part in self.owned if other == topic))
            for topic in sorted(topics)
        ]


class ConsumerGroupLife(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.metadata = Metadata(t=3, u=2)
        self.clients = ConsumerClients(self.metadata)
        self.members: dict[str, Member] = {}
        self.dead: list[Member] = []
        """They own their partitions until the coordinator knows better, at most for a session."""
        self.count = 0

    @property
    def group(self) -> ConsumerGroup | None:
        return self.clients.shard.coordinator._groups.get(GROUP)

    @initialize(interval_ms=st.sampled_from([0, 500]))
    def begin(self, interval_ms: int) -> None:
        self.clients = ConsumerClients(self.metadata, consumer_assignment_interval_ms=interval_ms)

    # -- members ---------------------------------------------------------------------------------------------

    @rule(subscription=subscriptions, static=st.booleans())
    def come(self, subscription: set[str] | str, static: bool) -> None:
        if len(self.members) >= 4:
            return
        self.count += 1
        member = Member(f"m{self.count}", subscription, f"i{self.count}" if static else None)
        self.members[member.member_id] = member
        self._beat(member)

    @precondition(lambda self: self.members)
    @rule(round_count=st.integers(1, 3))
    def all_heartbeat(self, round_count: int) -> None:
        for _ in range(round_count):
            for member in self.members.values():
                member.act()
                self._beat(member)
            self.no_partition_has_two_owners()

    @precondition(lambda self: self.members)
    @rule()
    def all_heartbeat_without_acting(self) -> None:
        for member in self.members.values():
            self._beat(member)

    @precondition(lambda self: self.members)
    @rule(data=st.data(), acts=st.booleans(), lost=st.booleans())
    def heartbeat(self, data: st.DataObject, acts: bool, lost: bool) -> None:
        member = self._draw(data)
        if acts:
            member.act()
        self._beat(member, lost=lost)

    @precondition(lambda self: self.members)
    @rule(data=st.data(), subscription=subscriptions)
    def resubscribe(self, data: st.DataObject, subscription: set[str] | str) -> None:
        member = self._draw(data)
        member.subscription = subscription
        member.full = True
        self._beat(member)

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        member = self._draw(data)
        member.owned, member.answer = set(), None
        del self.members[member.member_id]
        self._send(member, -1)

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def restart_static(self, data: st.DataObject) -> None:
        member = self._draw(data)
        if member.instance_id is None or not self._is_known(member):
            return
        member.owned, member.answer = set(), None
        del self.members[member.member_id]
        self._send(member, -2)
        self.count += 1
        again = Member(f"m{self.count}", member.subscription, member.instance_id)
        self.members[again.member_id] = again
        self._beat(again)

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def die(self, data: st.DataObject) -> None:
        member = self._draw(data)
        del self.members[member.member_id]
        self.dead.append(member)

    # -- the world -------------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(NAMES), partition_count=st.integers(1, 5))
    def create_or_grow(self, name: str, partition_count: int) -> None:
        topic = self.metadata.image.topic(name)
        if topic is None or len(topic.partitions) < partition_count:
            self.metadata.set_topic(name, partition_count)

    @rule(duration_ms=st.sampled_from([600, 5000, REBALANCE_MS]))
    def pass_time(self, duration_ms: int) -> None:
        self.clients.shard.advance(duration_ms)
        self._expire()

    @rule()
    def restart(self) -> None:
        before = self._state()
        self.clients.shard.restart()
        assert self._state() == before
        for member in [*self.members.values(), *self.dead]:
            member.last_heard_ms = self.clients.shard.steady_ms

    # -- what must hold --------------------------------------------------------------------------------------

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        owners: dict[tuple[bytes, int], str] = {}
        for member in [*self.members.values(), *self.dead]:
            for partition in member.owned | _answered(member):
                owner = owners.setdefault(partition, member.member_id)
                assert owner == member.member_id, f"{partition} is owned by {owner} and {member.member_id}"

    @invariant()
    def epochs_are_in_order(self) -> None:
        group = self.group
        if group is not None:
            assert group.assignment_epoch <= group.group_epoch
            for member in group.members.values():
                assert member.member_epoch <= group.assignment_epoch

    def teardown(self) -> None:
        """Left alone, the group comes to rest with every partition where the target says."""
        self.clients.shard.advance(SESSION_MS - 1000)
        self._expire()
        for _ in range(8):
            self.clients.shard.advance(600)
            self._expire()
            for member in list(self.members.values()):
                member.act()
                self._beat(member)
        group = self.group
        if group is None or not self.members:
            return
        self.clients.shard.advance(10_000)
        for _ in range(8):
            self.clients.shard.advance(600)
            self._expire()
            for member in list(self.members.values()):
                member.act()
                self._beat(member)
        assert group.state_name == "Stable"
        assert group.members.keys() == self.members.keys()
        given = [partition for member in self.members.values() for partition in member.owned]
        assert sorted(given) == sorted(self._wanted(group))

    # -- inside ----------------------------------------------------------------------------------------------

    def _draw(self, data: st.DataObject) -> Member:
        return self.members[data.draw(st.sampled_from(sorted(self.members)))]

    def _is_known(self, member: Member) -> bool:
        return self.group is not None and member.member_id in self.group.members

    def _beat(self, member: Member, *, lost: bool = False) -> None:
        fields: dict[str, Any] = {"topic_partitions": member.report()}
        if member.full or member.epoch == 0:
            fields |= {"rebalance_timeout_ms": REBALANCE_MS, **member.subscription_fields()}
        reply = self._send(member, member.epoch, **fields)
        if reply is None:
            # Fenced: the client gives up everything and starts again.
            member.owned, member.answer, member.epoch, member.full = set(), None, 0, True
            return
        member.last_heard_ms = self.clients.shard.steady_ms
        member.full = lost
        if lost:
            # Its heartbeat did not report what it had yet to act on, so the coordinator may have given that away, and
            # the reply that would have said so is gone. Apache Kafka does the same ("unreported" in
            # test_consumer_groups_against_kafka.py). The client must drop the assignment and ask again.
            member.answer = None
        else:
            member.epoch = reply.member_epoch
            if reply.assignment is not None:
                member.answer = reply.assignment

    def _send(self, member: Member, epoch: int, **fields: Any) -> Any:
        try:
            return self.clients.heartbeat(member.member_id, epoch, instance_id=member.instance_id, **fields)
        except KafkaError as error:
            if error.code not in FENCES:
                raise
            return None

    def _expire(self) -> None:
        """A client that the coordinator has not answered for a session knows that it is out, and so does one that
        could not give up partitions in time: it polls too slowly."""
        for member in [*self.members.values(), *self.dead]:
            if not self._is_known(member):
                member.owned, member.answer, member.epoch, member.full = set(), None, 0, True
        self.dead = [member for member in self.dead if self._is_known(member)]

    def _state(self) -> Any:
        group = self.group
        if group is None:
            return None
        return group.members, group.targets, group.group_epoch, group.assignment_epoch, group._owners, group.regexes

    def _wanted(self, group: ConsumerGroup) -> list[tuple[bytes, int]]:
        names = frozenset[str]().union(*(subscribed_topics(member, group.regexes) for member in group.members.values()))
        topics = self.metadata.image.topics
        return [
            (topic_id(name), partition.index)
            for name in names
            if name in topics
            for partition in topics[name].partitions
        ]


def _answered(member: Member) -> set[tuple[bytes, int]]:
    """A client may begin with what an answer gives it at any moment."""
    if member.answer is None:
        return set()
    return {
        (listed.topic_id, partition) for listed in member.answer.topic_partitions for partition in listed.partitions
    }


TestConsumerGroupLife = ConsumerGroupLife.TestCase
TestConsumerGroupLife.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)
