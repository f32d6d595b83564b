"""A classic group: its members, its generation, and its state.

What the log has of a group is its last complete generation with the members' assignments. A rebalance is volatile:
it works on the members directly, and after a restart the group stands where it stood before. `install` is how a
record takes effect, live and on load: live, it finds the members of the record already there and gives them their
assignments; on load, it makes them.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping

from oncelog.broker.base.now import Now
from oncelog.broker.coordinator.contract import CoordinatorRecord
from oncelog.broker.coordinator.group.classic.member import ClassicMember
from oncelog.broker.coordinator.group.classic.states import (
    CAN_REBALANCE,
    COMMIT_REFUSALS,
    TRANSITIONS,
    ClassicState,
)
from oncelog.broker.coordinator.group.common import Committer, GroupType
from oncelog.protocol.codec import decode
from oncelog.protocol.errors import ErrorCode, KafkaError, ProtocolError
from oncelog.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from oncelog.protocol.messages.group_records import GroupMetadataKey, GroupMetadataValue, MemberMetadata

logger = logging.getLogger(__name__)

CONSUMER_PROTOCOL_TYPE = "consumer"
VALUE_VERSION = 3
NO_TIMESTAMP = -1

_VERSION_SIZE_BYTES = 2


class ClassicGroup:
    type = GroupType.CLASSIC

    def __init__(self, group_id: str, now: Now | None = None) -> None:
        self._group_id = group_id
        self.state = ClassicState.EMPTY
        self.previous_state = ClassicState.DEAD
        self.state_since_ms: int | None = None if now is None else now.steady_ms
        """In steady time; None if the log does not say."""
        self.generation = 0
        self.protocol_type = ""
        self.protocol: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_members: dict[str, str] = {}
        """Member ids by instance id (KIP-345)."""
        self.pending_members: set[str] = set()
        """Ids that were given out and have not come back yet (KIP-394)."""
        self.awaiting_join: set[str] = set()
        """Members whose JoinGroup is parked."""
        self.awaiting_sync: set[str] = set()
        """Members whose SyncGroup is parked."""
        self.pending_sync: set[str] = set()
        """Members of this generation that have not sent SyncGroup yet."""
        self.initial_delay: tuple[int, int] | None = None
        """In an initial rebalance: the delay that runs, and the time left for further ones."""
        self.new_member_added = False
        """Since the initial delay that runs has begun."""
        self._protocol_counts: Counter[str] = Counter()
        """How many members speak a protocol."""
        self._subscribed_topics: frozenset[str] | None = None

    # -- what all groups have --------------------------------------------------------------------------------

    @property
    def group_id(self) -> str:
        return self._group_id

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        return self.state is ClassicState.EMPTY

    def check_offset_commit(self, committer: Committer, _: Iterable[tuple[bytes, int]], *, transactional: bool) -> None:
        if committer.generation < 0 and self.is_empty:
            # Someone who assigns partitions by hand, or an administrator.
            return
        if committer.generation >= 0 or committer.member_id or committer.instance_id is not None:
            self.check_member(committer.member_id, committer.instance_id)
            self.check_generation(committer.generation)
        elif not transactional and not self.is_empty:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, "the group has members, and a commit must come from one")
        refusal = COMMIT_REFUSALS.get(self.state)
        if refusal is not None and not transactional:
            raise KafkaError(refusal, f"the group is {self.state}")

    def check_offset_fetch(self, _: str | None, __: int) -> None:
        """Anyone may read the offsets of a classic group."""

    def check_offset_delete(self) -> None:
        if not self.is_empty and self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, "it is not known which topics the members consume")

    def check_delete(self) -> None:
        if not self.is_empty:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, f"the group has {len(self.members)} members")

    def is_subscribed_to(self, topic: str) -> bool:
        """A consumer group whose subscriptions cannot be read may consume any topic."""
        if self._subscribed_topics is None:
            return self.protocol_type == CONSUMER_PROTOCOL_TYPE
        return topic in self._subscribed_topics

    def retention_start_ms(self, committed_ms: int) -> int | None:
        if not self.protocol_type:
            return committed_ms
        if self.is_empty:
            return committed_ms if self.state_since_ms is None else self.state_since_ms
        if self.state is ClassicState.STABLE and self._subscribed_topics is not None:
            return committed_ms
        return None

    def tombstones(self) -> list[CoordinatorRecord]:
        return [CoordinatorRecord(GroupMetadataKey(group=self.group_id), None)]

    # -- state and generation --------------------------------------------------------------------------------

    @property
    def can_rebalance(self) -> bool:
        return self.state in CAN_REBALANCE

    def transition_to(self, state: ClassicState, now: Now) -> None:
        assert state in TRANSITIONS[self.state], f"{self.group_id} cannot go from {self.state} to {state}"
        self._set_state(state)
        self.state_since_ms = now.steady_ms

    def _set_state(self, state: ClassicState) -> None:
        self.previous_state, self.state = self.state, state
        logger.debug("group %s: %s -> %s in generation %d", self.group_id, self.previous_state, state, self.generation)

    def begin_generation(self, now: Now) -> None:
        """All who will be in the next generation have joined."""
        self.generation += 1
        self.pending_sync.clear()
        if self.members:
            self.protocol = self.select_protocol()
            self.transition_to(ClassicState.COMPLETING_REBALANCE, now)
        else:
            self.protocol = None
            self.transition_to(ClassicState.EMPTY, now)
        self._read_subscriptions()

    def record(self, assignments: Mapping[str, bytes], now: Now) -> CoordinatorRecord:
        """The generation with its assignments, for the log."""
        members = []
        for member in self.members.values():
            assert self.protocol is not None
            members.append(member.record(self.protocol, assignments.get(member.member_id, b"")))
        value = GroupMetadataValue(
            protocol_type=self.protocol_type,
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader_id,
            current_state_timestamp=now.wall_ms,
            members=members,
        )
        return CoordinatorRecord(GroupMetadataKey(group=self.group_id), value, VALUE_VERSION)

    @property
    def members_bytes_max(self) -> int:
        """What the members take in the record of a generation, at most."""
        return sum(member.record_bytes_max for member in self.members.values())

    def first_record(self, now: Now) -> CoordinatorRecord:
        """That a group exists which nobody has completed a rebalance of yet."""
        value = GroupMetadataValue(protocol=None, leader=None, current_state_timestamp=now.wall_ms)
        return CoordinatorRecord(GroupMetadataKey(group=self.group_id), value, VALUE_VERSION)

    def install(self, value: GroupMetadataValue, now: Now) -> None:
        if self.state is ClassicState.PREPARING_REBALANCE:
            # The first record of a group, written while its first members wait for others.
            assert not value.members
            return
        self.generation = value.generation
        self.protocol_type = value.protocol_type
        self.protocol = value.protocol
        self.leader_id = value.leader
        timestamp_ms = value.current_state_timestamp
        self.state_since_ms = None if timestamp_ms == NO_TIMESTAMP else now.steady_at(timestamp_ms)
        self.members = {record.member_id: self._installed(record, value.protocol or "") for record in value.members}
        self.static_members = {
            member.instance_id: member.member_id for member in self.members.values() if member.instance_id is not None
        }
        self._protocol_counts = Counter(name for member in self.members.values() for name in member.protocols)
        self._set_state(ClassicState.STABLE if self.members else ClassicState.EMPTY)
        self._read_subscriptions()

    def _installed(self, record: MemberMetadata, protocol: str) -> ClassicMember:
        """The log has only one of the protocols that a member can speak; one who is here keeps all."""
        member = ClassicMember.from_record(record, protocol)
        present = self.members.get(record.member_id)
        if present is not None and present.protocols.get(protocol) == record.subscription:
            member.set_protocols(present.protocols)
        return member

    # -- members ---------------------------------------------------------------------------------------------

    @property
    def has_all_joined(self) -> bool:
        return len(self.awaiting_join) == len(self.members) and not self.pending_members

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def check_member(self, member_id: str, instance_id: str | None) -> None:
        if instance_id is not None:
            owner = self.static_members.get(instance_id)
            if owner is not None and owner != member_id:
                raise KafkaError(ErrorCode.FENCED_INSTANCE_ID, "another member has taken over the instance id")
            if owner is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, "no member has the instance id")
        if member_id not in self.members:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, "the group has no such member")

    def check_generation(self, generation: int) -> None:
        if generation != self.generation:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION, f"the group is at generation {self.generation}")

    def is_excused(self, member: ClassicMember) -> bool:
        """Whoever waits for an answer cannot send heartbeats. A new member's wait has a limit all the same,
        because its client may have given up and be back under another id."""
        waits = member.member_id in self.awaiting_join or member.member_id in self.awaiting_sync
        return waits and not member.is_new

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        """The first member leads, and decides what kind of protocol the group speaks."""
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self.members[member.member_id] = member
        self._protocol_counts.update(member.protocols.keys())
        self.pending_members.discard(member.member_id)

    def update(
        self,
        member: ClassicMember,
        protocols: Mapping[str, bytes],
        *,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        self._protocol_counts.subtract(member.protocols.keys())
        self._protocol_counts.update(protocols.keys())
        member.set_protocols(protocols)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def remove(self, member_id: str) -> None:
        """A member or one who is only pending."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._protocol_counts.subtract(member.protocols.keys())
            if member.instance_id is not None:
                del self.static_members[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        for waiting in (self.pending_members, self.pending_sync, self.awaiting_join, self.awaiting_sync):
            waiting.discard(member_id)

    def rename_static(self, instance_id: str, new_member_id: str) -> ClassicMember:
        """A static member is back under a new id: it takes the place of its former self."""
        member = self.members.pop(self.static_members[instance_id])
        former_id = member.member_id
        if self.leader_id == former_id:
            self.leader_id = new_member_id
        for waiting in (self.pending_sync, self.awaiting_join, self.awaiting_sync):
            waiting.discard(former_id)
        member.member_id = new_member_id
        self.members[new_member_id] = member
        self.static_members[instance_id] = new_member_id
        return member

    def elect_joined_leader(self) -> bool:
        """The leader must be one who has joined; False if nobody has."""
        if self.leader_id in self.awaiting_join:
            return True
        joined = next((member_id for member_id in self.members if member_id in self.awaiting_join), None)
        if joined is not None:
            self.leader_id = joined
        return joined is not None

    # -- protocols -------------------------------------------------------------------------------------------

    def supports(self, protocol_type: str, protocols: Mapping[str, bytes]) -> bool:
        """Whether someone who speaks these could be a member."""
        if self.is_empty:
            return bool(protocol_type and protocols)
        return protocol_type == self.protocol_type and any(
            self._protocol_counts[name] == len(self.members) for name in protocols
        )

    def select_protocol(self) -> str:
        """Of the protocols that all members speak, the one that most of them prefer."""
        candidates = {name for name, count in self._protocol_counts.items() if count == len(self.members)}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def _read_subscriptions(self) -> None:
        """Which topics the members consume; None where that cannot be known."""
        self._subscribed_topics = None
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return
        topics: set[str] = set()
        for member in self.members.values():
            assert self.protocol is not None
            try:
                # Later versions only add fields behind those of version 0.
                metadata = member.protocols[self.protocol]
                topics.update(decode(ConsumerProtocolSubscription, 0, metadata, _VERSION_SIZE_BYTES).topics)
            except ProtocolError:
                return
        self._subscribed_topics = frozenset(topics)
