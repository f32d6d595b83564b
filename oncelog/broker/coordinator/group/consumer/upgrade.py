"""Groups change between the classic and the consumer protocol while their members go on (KIP-848).

When the first member of the consumer protocol joins a classic group of consumers, the group becomes a consumer
group: its members stay what they are and are served by consumer_classic.py. When the last member of the consumer
protocol leaves, the group becomes a classic one again, and rebalances. `group.consumer.migration.policy` can forbid
either.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Sequence

from oncelog.broker.base.now import Now
from oncelog.broker.coordinator.effects import Effects
from oncelog.broker.coordinator.group.assignors import Assignment
from oncelog.broker.coordinator.group.classic.classic_group import ClassicGroup
from oncelog.broker.coordinator.group.classic.member import ClassicMember
from oncelog.broker.coordinator.group.classic.rebalance import (
    join_refusal,
    join_timer,
    join_token,
    refresh_session,
    session_timer,
    sync_timer,
    sync_token,
)
from oncelog.broker.coordinator.group.consumer.consumer_group import PROTOCOL_TYPE, ConsumerGroup
from oncelog.broker.coordinator.group.consumer.member import ClassicMembership, ConsumerMember, acquired
from oncelog.broker.coordinator.group.consumer.records import (
    current_record,
    group_record,
    member_record,
    target_epoch_record,
    target_record,
)
from oncelog.broker.coordinator.group.consumer.timers import cancel_timers, downgrade_timer
from oncelog.broker.coordinator.group.consumer.timers import session_timer as consumer_session_timer
from oncelog.broker.coordinator.group.consumer.topics import TopicMetadata
from oncelog.broker.coordinator.group.settings import GroupSettings
from oncelog.protocol.codec import decode, encode
from oncelog.protocol.errors import ErrorCode, KafkaError, ProtocolError
from oncelog.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from oncelog.protocol.messages.sync_group import SyncGroupResponse

logger = logging.getLogger(__name__)

_VERSION = struct.Struct(">h")
_NEVER_ASSIGNED_MS = 0
"""As a time of 1970, it lets the next heartbeat assign at once."""


# -- what consumers tell each other ----------------------------------------------------------------------------


def decode_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """Of a later version than we know, the fields that we know, since versions only add."""
    return decode(ConsumerProtocolSubscription, _version(metadata), metadata, _VERSION.size)


def encode_assignment(assignment: Assignment, topics: TopicMetadata, metadata: bytes) -> bytes:
    """In the version of the member's own `metadata`. Topics that are gone are left out."""
    version = _version(metadata)
    partitions = [
        TopicPartition(topic=name, partitions=sorted(indexes))
        for topic_id, indexes in assignment.items()
        if (name := topics.name(topic_id)) is not None
    ]
    return _VERSION.pack(version) + encode(ConsumerProtocolAssignment(assigned_partitions=partitions), version)


def _version(metadata: bytes) -> int:
    if len(metadata) < _VERSION.size:
        raise ProtocolError("the consumer's metadata is shorter than its version")
    version: int = _VERSION.unpack_from(metadata)[0]
    if version < 0:
        raise ProtocolError(f"the consumer's metadata has version {version}")
    return min(version, ConsumerProtocolSubscription.VERSIONS.last)


# -- classic to consumer ---------------------------------------------------------------------------------------


def upgrade(classic: ClassicGroup, settings: GroupSettings, topics: TopicMetadata, effects: Effects) -> ConsumerGroup:
    """The group as it is once the effects have come about."""
    _check_upgrade(classic, settings)
    try:
        group = _consumer_group_of(classic, topics)
    except ProtocolError as error:
        raise _cannot_upgrade(classic, f"its members cannot be understood: {error}") from None
    _release(classic, effects)
    group_id = group.group_id
    effects.write(*classic.tombstones())
    effects.write(*(member_record(group_id, member) for member in group.members.values()))
    effects.write(group_record(group_id, group.group_epoch, group.metadata_hash))
    effects.write(*(target_record(group_id, member_id, target) for member_id, target in group.targets.items()))
    effects.write(target_epoch_record(group_id, group.assignment_epoch, _NEVER_ASSIGNED_MS))
    effects.write(*(current_record(group_id, member) for member in group.members.values()))
    for member in group.members.values():
        assert member.classic is not None
        effects.set_timer(consumer_session_timer(group_id, member.member_id), member.classic.session_timeout_ms)
    logger.info("group %s has become a consumer group", group_id)
    return group


def _check_upgrade(classic: ClassicGroup, settings: GroupSettings) -> None:
    if not settings.upgrade_enabled:
        raise _cannot_upgrade(classic, "group.consumer.migration.policy does not allow it")
    if classic.protocol_type != PROTOCOL_TYPE:
        raise _cannot_upgrade(classic, f"its members are no consumers but {classic.protocol_type}")
    if len(classic.members) > settings.consumer_group_size_max:
        raise _cannot_upgrade(classic, "it has too many members")


def _cannot_upgrade(classic: ClassicGroup, reason: str) -> KafkaError:
    message = f"the classic group {classic.group_id} cannot become a consumer group: {reason}"
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, message)


def _release(classic: ClassicGroup, effects: Effects) -> None:
    """Whoever waits in a rebalance is sent to join again, and the timers of the classic group end. The group itself
    still has them waiting, since the one who brings the upgrade about may yet be refused."""
    for member_id in [*classic.members, *classic.pending_members]:
        if member_id in classic.awaiting_join:
            refusal = join_refusal(ErrorCode.REBALANCE_IN_PROGRESS, member_id)
            effects.complete(join_token(classic, member_id), refusal)
        if member_id in classic.awaiting_sync:
            again = SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
            effects.complete(sync_token(classic, member_id), again)
        effects.cancel_timer(session_timer(classic, member_id))
    effects.cancel_timer(join_timer(classic))
    effects.cancel_timer(sync_timer(classic))


def _consumer_group_of(classic: ClassicGroup, topics: TopicMetadata) -> ConsumerGroup:
    group = ConsumerGroup(classic.group_id)
    group.group_epoch = group.assignment_epoch = classic.generation
    protocol = classic.protocol or classic.select_protocol()
    names: set[str] = set()
    for classic_member in classic.members.values():
        subscription = decode_subscription(classic_member.protocols[protocol])
        target = _assigned_to(classic_member, topics)
        names.update(subscription.topics)
        group.targets[classic_member.member_id] = target
        group.install_member(
            ConsumerMember(
                classic_member.member_id,
                classic.generation,
                classic.generation,
                instance_id=classic_member.instance_id,
                rack_id=subscription.rack_id or None,
                rebalance_timeout_ms=classic_member.rebalance_timeout_ms,
                client_id=classic_member.client_id,
                client_host=classic_member.client_host,
                topic_names=frozenset(subscription.topics),
                assigned=acquired(target, classic.generation),
                classic=ClassicMembership(classic_member.session_timeout_ms, tuple(classic_member.protocols.items())),
            )
        )
    group.metadata_hash = topics.hash_of(names)
    return group


def _assigned_to(member: ClassicMember, topics: TopicMetadata) -> Assignment:
    if not member.assignment:
        return {}
    assignment = decode(ConsumerProtocolAssignment, _version(member.assignment), member.assignment, _VERSION.size)
    if assignment.user_data:
        raise ProtocolError("a custom assignor has given them data that would be lost")
    known = topics.image.topics
    return {
        known[assigned.topic].id: frozenset(assigned.partitions)
        for assigned in assignment.assigned_partitions
        if assigned.topic in known and assigned.partitions
    }


# -- consumer to classic ---------------------------------------------------------------------------------------


def can_downgrade(
    group: ConsumerGroup, leaving: Sequence[ConsumerMember], settings: GroupSettings, *, joining: bool = False
) -> bool:
    """Whether only members of the classic protocol are left, and they may have a classic group."""
    remaining_count = len(group.members) - len(leaving) + joining
    if not settings.downgrade_enabled or not 0 < remaining_count <= settings.group_size_max:
        return False
    return group.is_classic_without(leaving)


class Downgrade:
    """The classic group that a consumer group becomes. A static member who joins takes the place of its former self,
    who leaves."""

    def __init__(
        self,
        group: ConsumerGroup,
        leaving: Sequence[ConsumerMember],
        joining: ConsumerMember | None,
        topics: TopicMetadata,
        now: Now,
    ) -> None:
        self._group = group
        self._classic = classic = ClassicGroup(group.group_id, now)
        self._rebalances = joining is None or group.assignment_epoch < group.group_epoch
        gone = {member.member_id for member in leaving}
        classic.generation = group.group_epoch
        targets: dict[str, Assignment] = {}
        for member in group.members.values():
            if member.member_id not in gone:
                classic.add(_classic_member(member), PROTOCOL_TYPE)
                targets[member.member_id] = group.targets.get(member.member_id, {})
        if joining is not None:
            classic.add(_classic_member(joining), PROTOCOL_TYPE)
            targets[joining.member_id] = group.target_of(joining)
        classic.protocol = protocol = classic.select_protocol()
        assignments = {
            member.member_id: encode_assignment(targets[member.member_id], topics, member.protocols[protocol])
            for member in classic.members.values()
        }
        self.records = [*group.tombstones(), classic.record(assignments, now)]

    def carry_out(self, effects: Effects) -> None:
        group = self._group
        effects.write(*self.records)
        for member in group.members.values():
            cancel_timers(group.group_id, member.member_id, effects)
        for classic_member in self._classic.members.values():
            refresh_session(self._classic, classic_member, effects)
        if self._rebalances:
            # The classic group is there when its record has been replayed: its rebalance comes with the next turn.
            effects.set_timer(downgrade_timer(group.group_id), 0)
        logger.info("group %s has become a classic group", group.group_id)


def _classic_member(member: ConsumerMember) -> ClassicMember:
    assert member.classic is not None
    return ClassicMember(
        member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocols=dict(member.classic.protocols),
    )
