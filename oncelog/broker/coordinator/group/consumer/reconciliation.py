"""Brings a member from what it has to its target, so that no partition ever has two owners (KIP-848).

A member first gives up what is not in its target; it stays in its epoch until it confirms that. Then it goes to
the target's epoch and gets the partitions that are free. Those that others still hold it gets when they let go.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from oncelog.broker.coordinator.group.assignors import Assignment
from oncelog.broker.coordinator.group.consumer.member import (
    NOTHING_OWNED,
    ConsumerMember,
    MemberState,
    OwnedPartitions,
    PartitionList,
    owns_any,
)
from oncelog.named_tuple import NamedTuple
from oncelog.protocol.errors import ErrorCode, KafkaError

_NO_PARTITIONS: frozenset[int] = frozenset()


class Reconciliation(NamedTuple):
    """What decides how far a member can go."""

    target_epoch: int
    target: Assignment
    topic_ids: Collection[bytes]
    """Of the topics that the member is subscribed to and that exist."""
    is_owned: Callable[[bytes, int], bool]
    """Whether any member of the group has a partition, or still gives it up."""
    reported: Sequence[PartitionList] | None
    """The partitions that the member says it has; None if it says that nothing has changed."""
    subscription_changed: bool = False

    def advance(self, member: ConsumerMember) -> ConsumerMember:
        """The member in its next state, or the same one if it cannot go on."""
        match member.state:
            case MemberState.STABLE if member.member_epoch == self.target_epoch:
                return self._drop_unsubscribed(member)
            case MemberState.UNREVOKED_PARTITIONS if self._still_has(member.revoking):
                return self._drop_unsubscribed(member)
            case MemberState.UNKNOWN if self.reported is None or self.reported:
                raise KafkaError(
                    ErrorCode.FENCED_MEMBER_EPOCH, "the member's state is unknown: give up all partitions and rejoin"
                )
            case _:
                return self._advance_to_target(member)

    def _still_has(self, revoking: OwnedPartitions) -> bool:
        return self.reported is None or owns_any(self.reported, revoking)

    def _drop_unsubscribed(self, member: ConsumerMember) -> ConsumerMember:
        """The target may lag behind a change of subscription; what it no longer wants the member gives up now."""
        if not self.subscription_changed:
            return member
        unwanted = {topic_id: epochs for topic_id, epochs in member.assigned.items() if topic_id not in self.topic_ids}
        if not unwanted:
            return member
        assigned = {topic_id: epochs for topic_id, epochs in member.assigned.items() if topic_id in self.topic_ids}
        revoking = {
            topic_id: {**member.revoking.get(topic_id, {}), **unwanted.get(topic_id, {})}
            for topic_id in {*member.revoking, *unwanted}
        }
        if self._still_has(revoking):
            return member.advanced(MemberState.UNREVOKED_PARTITIONS, member.member_epoch, assigned, revoking)
        return member.advanced(member.state, member.member_epoch, assigned)

    def _advance_to_target(self, member: ConsumerMember) -> ConsumerMember:
        assigned: dict[bytes, dict[int, int]] = {}
        revoking: dict[bytes, dict[int, int]] = {}
        waits = False
        for topic_id in {*self.target, *member.assigned}:
            wanted = self.target.get(topic_id, _NO_PARTITIONS) if topic_id in self.topic_ids else _NO_PARTITIONS
            epochs = member.assigned.get(topic_id, {})
            kept = {partition: epoch for partition, epoch in epochs.items() if partition in wanted}
            dropped = {partition: epoch for partition, epoch in epochs.items() if partition not in wanted}
            if dropped:
                revoking[topic_id] = dropped
            if kept:
                assigned[topic_id] = kept
        if revoking and self._still_has(revoking):
            return member.advanced(MemberState.UNREVOKED_PARTITIONS, member.member_epoch, assigned, revoking)
        for topic_id, partitions in self.target.items():
            if topic_id in self.topic_ids:
                kept = assigned.get(topic_id, {})
                free = {
                    partition
                    for partition in partitions
                    if partition not in kept and self._is_free(member, topic_id, partition)
                }
                waits = waits or len(free) + len(kept) < len(partitions)
                if free:
                    assigned[topic_id] = {**kept, **dict.fromkeys(free, self.target_epoch)}
        state = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE
        return member.advanced(state, self.target_epoch, assigned, NOTHING_OWNED)

    def _is_free(self, member: ConsumerMember, topic_id: bytes, partition: int) -> bool:
        """What the member itself has just given up it can have back."""
        return partition in member.revoking.get(topic_id, {}) or not self.is_owned(topic_id, partition)
