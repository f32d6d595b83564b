"""A consumer group (KIP-848): its members, the epochs, the target assignment, and who owns which partition.

    group epoch       grows when members, subscriptions or topics change
    assignment epoch  the group epoch that the target assignment was made for
    member epoch      the assignment epoch that a member has reached

All of it is in the log and changes by `install_` and `remove_` methods, which replay calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum

from oncelog.broker.coordinator.contract import CoordinatorRecord
from oncelog.broker.coordinator.group.assignors import NOTHING, Assignment
from oncelog.broker.coordinator.group.common import Committer, GroupType
from oncelog.broker.coordinator.group.consumer.member import ConsumerMember, MemberState
from oncelog.broker.coordinator.group.consumer.records import group_tombstones
from oncelog.named_tuple import NamedTuple
from oncelog.protocol.errors import ErrorCode, KafkaError

PROTOCOL_TYPE = "consumer"
OFFSET_COMMIT_SINCE = 9
"""The first version of OffsetCommit that has a member epoch."""


class ConsumerState(StrEnum):
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ResolvedRegex(NamedTuple):
    """The topics that a subscribed expression matches, as of a revision of the metadata."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


class ConsumerGroup:
    type = GroupType.CONSUMER
    protocol_type = PROTOCOL_TYPE

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self.group_epoch = 1
        self.metadata_hash = 0
        self.assignment_epoch = 0
        self.assigned_ms: int | None = None
        """When the target assignment was made, in steady time."""
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        """Member ids by instance id."""
        self.targets: dict[str, Assignment] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        self.has_partition_metadata = False
        """Whether the log has a record of Kafka before 4.1 that is to be deleted."""
        self._owners: dict[bytes, dict[int, str]] = {}
        self._name_counts: Counter[str] = Counter()
        self._regex_counts: Counter[str] = Counter()
        self._assignor_counts: Counter[str] = Counter()
        self._classic_protocol_counts: Counter[str] = Counter()
        self.classic_count = 0
        # Volatile: what has been looked at already, and what timers are running.
        self.topics_seen: Mapping[str, object] | None = None
        """The topics of the metadata image by which the group's epoch was last checked."""
        self.regexes_checked_ms: int | None = None
        self.regexes_checked_topics: Mapping[str, object] | None = None
        """When, and against which topics, all expressions were last matched."""
        self.awaited_joins: set[str] = set()
        """Classic members who were told to join again and whose time to do so runs."""

    # -- what all groups have --------------------------------------------------------------------------------

    @property
    def group_id(self) -> str:
        return self._group_id

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def state(self) -> ConsumerState:
        if not self.members:
            return ConsumerState.EMPTY
        if self.group_epoch > self.assignment_epoch:
            return ConsumerState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return ConsumerState.STABLE
        return ConsumerState.RECONCILING

    @property
    def is_empty(self) -> bool:
        return not self.members

    def check_offset_commit(
        self, committer: Committer, partitions: Iterable[tuple[bytes, int]], *, transactional: bool
    ) -> None:
        epoch = committer.generation
        if epoch < 0 and self.is_empty:
            return
        if transactional and epoch < 0 and not committer.member_id and committer.instance_id is None:
            # A transactional producer of before KIP-447 does not say whose offsets they are.
            return
        member = self.member(committer.member_id)
        if not transactional and member.classic is None and committer.version < OFFSET_COMMIT_SINCE:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "the version of OffsetCommit knows no member epoch")
        if epoch > member.member_epoch:
            raise _epoch_mismatch(member, epoch)
        if epoch < member.member_epoch:
            _check_owned_at(member, epoch, partitions)

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if not member_id and member_epoch < 0:
            return
        member = self.member(member_id or "")
        if member_epoch != member.member_epoch:
            raise _epoch_mismatch(member, member_epoch)

    def check_offset_delete(self) -> None:
        """Subscriptions are known, so offsets of other topics may be deleted at any time."""

    def check_delete(self) -> None:
        if not self.is_empty:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, f"the group has {len(self.members)} members")

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self._name_counts or any(topic in regex.topics for regex in self.regexes.values())

    def retention_start_ms(self, committed_ms: int) -> int | None:
        return committed_ms

    def tombstones(self) -> list[CoordinatorRecord]:
        return group_tombstones(self.group_id, self.members, self.regexes)

    # -- members ---------------------------------------------------------------------------------------------

    def member(self, member_id: str) -> ConsumerMember:
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def target_of(self, member: ConsumerMember) -> Assignment:
        """A static member who is back has the target of its former self until the log says otherwise."""
        member_id = member.member_id
        if member.instance_id is not None:
            member_id = self.static_members.get(member.instance_id, member_id)
        return self.targets.get(member_id, NOTHING)

    def is_owned(self, topic_id: bytes, partition: int) -> bool:
        return partition in self._owners.get(topic_id, {})

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether someone still owns a partition that the member is to get."""
        return any(
            partition not in member.assigned.get(topic_id, {}) and self.is_owned(topic_id, partition)
            for topic_id, partitions in self.targets.get(member.member_id, NOTHING).items()
            for partition in partitions
        )

    def members_with(self, changed: ConsumerMember) -> dict[str, ConsumerMember]:
        """The members as they are once one has changed, or a static one has taken the place of its former self."""
        members = dict(self.members)
        former = self.static_member(changed.instance_id)
        if former is not None and former.member_id != changed.member_id:
            members.pop(former.member_id, None)
        members[changed.member_id] = changed
        return members

    def regex_count(self, regex: str) -> int:
        """How many members are subscribed by an expression."""
        return self._regex_counts[regex]

    def supports_classic(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """Whether a client of the classic protocol understands the other ones who are in the group."""
        return protocol_type == PROTOCOL_TYPE and any(
            self._classic_protocol_counts[name] == self.classic_count for name in protocols
        )

    def is_classic_without(self, leaving: Iterable[ConsumerMember]) -> bool:
        """Whether only members of the classic protocol are left when others have gone."""
        leaving = list(leaving)
        classic_leaving = sum(member.classic is not None for member in leaving)
        return self.classic_count - classic_leaving == len(self.members) - len(leaving)

    # -- replay ----------------------------------------------------------------------------------------------

    def install_member(self, member: ConsumerMember) -> None:
        former = self.members.get(member.member_id)
        if former is None or former.topic_names is not member.topic_names:
            # A member may have thousands of names, and its assignment changes more often than they do.
            _add(self._name_counts, former.topic_names if former else (), -1)
            _add(self._name_counts, member.topic_names, 1)
        if former is not None:
            self._count(former, -1)
            self._disown(former)
        self.members[member.member_id] = member
        self._count(member, 1)
        for owned in (member.assigned, member.revoking):
            for topic_id, partitions in owned.items():
                self._owners.setdefault(topic_id, {}).update(dict.fromkeys(partitions, member.member_id))
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def remove_member(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is None:
            return
        _add(self._name_counts, member.topic_names, -1)
        self._count(member, -1)
        self._disown(member)
        self.awaited_joins.discard(member_id)
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
            del self.static_members[member.instance_id]

    def _disown(self, member: ConsumerMember) -> None:
        for owned in (member.assigned, member.revoking):
            for topic_id, partitions in owned.items():
                owners = self._owners.get(topic_id, {})
                for partition in partitions:
                    if owners.get(partition) == member.member_id:
                        del owners[partition]
                if not owners:
                    self._owners.pop(topic_id, None)

    def _count(self, member: ConsumerMember, change: int) -> None:
        if member.topic_regex:
            _add(self._regex_counts, (member.topic_regex,), change)
        if member.server_assignor is not None:
            _add(self._assignor_counts, (member.server_assignor,), change)
        if member.classic is not None:
            self.classic_count += change
            _add(self._classic_protocol_counts, (name for name, _ in member.classic.protocols), change)

    @property
    def preferred_assignor(self) -> str | None:
        """The one that most members ask for."""
        return max(self._assignor_counts, key=lambda name: self._assignor_counts[name], default=None)


def subscribed_topics(member: ConsumerMember, regexes: Mapping[str, ResolvedRegex]) -> frozenset[str]:
    """Names that a member is subscribed to, by name or by an expression, whether they exist or not."""
    resolved = regexes.get(member.topic_regex) if member.topic_regex else None
    return member.topic_names | resolved.topics if resolved else member.topic_names


def is_rebalancing(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether a member of the classic protocol has to join again to get on."""
    return (
        member.member_epoch < group.assignment_epoch
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or (member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member))
    )


def _add(counts: Counter[str], names: Iterable[str], change: int) -> None:
    for name in names:
        counts[name] += change
        if not counts[name]:
            del counts[name]


def _check_owned_at(member: ConsumerMember, epoch: int, partitions: Iterable[tuple[bytes, int]]) -> None:
    """A member whose epoch has moved on since it sent a commit may still commit what it had by then and has not
    lost since (KIP-1251)."""
    for topic_id, partition in partitions:
        acquired_epoch = member.acquisition_epoch(topic_id, partition)
        if acquired_epoch is None or epoch < acquired_epoch:
            raise _epoch_mismatch(member, epoch)


def _epoch_mismatch(member: ConsumerMember, epoch: int) -> KafkaError:
    code = ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
    return KafkaError(code, f"epoch {epoch} was given, and the member is at {member.member_epoch}")
