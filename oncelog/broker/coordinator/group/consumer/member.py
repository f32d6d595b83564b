"""A member of a consumer group (KIP-848), as the log has it. Immutable: a record replaces it.

    Stable                it has what the target at its epoch gives it
    UnrevokedPartitions   it has been asked to give partitions up and has not confirmed it yet
    UnreleasedPartitions  it waits for partitions that others have not given up yet

A member that speaks the classic protocol (online upgrade) is one with `classic`; its epoch is its generation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Protocol

from oncelog.broker.coordinator.group.assignors import Assignment
from oncelog.named_tuple import NamedTuple
from oncelog.protocol.messages.group_records import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    TopicPartitions,
)

JOINING_EPOCH = 0
LEAVING_EPOCH = -1
STATIC_LEAVING_EPOCH = -2

OwnedPartitions = Mapping[bytes, Mapping[int, int]]
"""By topic id and partition, the epoch in which the member got it (KIP-1251)."""

NOTHING_OWNED: OwnedPartitions = {}


class MemberState(IntEnum):
    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127
    """Written by a later version than this one."""

    @classmethod
    def _missing_(cls, _: object) -> MemberState:
        return cls.UNKNOWN


class ClassicMembership(NamedTuple):
    """What a member of the classic protocol said when it joined."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """Names with metadata, in the member's order of preference. The first one is used."""

    @property
    def protocol(self) -> str:
        return self.protocols[0][0]

    @property
    def metadata(self) -> bytes:
        return self.protocols[0][1]


class PartitionList(Protocol):
    """Partitions of a topic, as several messages have them."""

    topic_id: bytes
    partitions: list[int]


class ConsumerMember(NamedTuple):
    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    topic_regex: str = ""
    server_assignor: str | None = None
    assigned: OwnedPartitions = NOTHING_OWNED
    revoking: OwnedPartitions = NOTHING_OWNED
    """Partitions that the member still has to give up."""
    classic: ClassicMembership | None = None

    def with_metadata(self, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
        classic = value.classic_member_metadata
        membership = None
        if classic is not None:
            protocols = tuple((protocol.name, protocol.metadata) for protocol in classic.supported_protocols)
            membership = ClassicMembership(classic.session_timeout_ms, protocols)
        return self._replace(
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            client_id=value.client_id,
            client_host=value.client_host,
            topic_names=frozenset(value.subscribed_topic_names),
            topic_regex=value.subscribed_topic_regex or "",
            server_assignor=value.server_assignor,
            classic=membership,
        )

    def with_assignment(self, value: ConsumerGroupCurrentMemberAssignmentValue | None) -> ConsumerMember:
        if value is None:
            return self._replace(
                member_epoch=LEAVING_EPOCH,
                previous_member_epoch=LEAVING_EPOCH,
                assigned=NOTHING_OWNED,
                revoking=NOTHING_OWNED,
            )
        return self._replace(
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=MemberState(value.state),
            assigned=_owned_from_record(value.assigned_partitions, value.member_epoch),
            revoking=_owned_from_record(value.partitions_pending_revocation, value.member_epoch),
        )

    def advanced(
        self, state: MemberState, epoch: int, assigned: OwnedPartitions, revoking: OwnedPartitions = NOTHING_OWNED
    ) -> ConsumerMember:
        return self._replace(
            state=state,
            member_epoch=epoch,
            previous_member_epoch=self.member_epoch,
            assigned=assigned,
            revoking=revoking,
        )

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch

    def acquisition_epoch(self, topic_id: bytes, partition: int) -> int | None:
        """The epoch in which it got a partition that it has or still gives up."""
        for owned in (self.assigned, self.revoking):
            epoch = owned.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None


def owns_any(reported: Iterable[PartitionList], owned: OwnedPartitions) -> bool:
    return any(not owned.get(listed.topic_id, {}).keys().isdisjoint(listed.partitions) for listed in reported)


def owns_all(reported: Iterable[PartitionList], owned: OwnedPartitions) -> bool:
    return all(owned.get(listed.topic_id, {}).keys() >= set(listed.partitions) for listed in reported)


def acquired(assignment: Assignment, epoch: int) -> OwnedPartitions:
    return {topic_id: dict.fromkeys(partitions, epoch) for topic_id, partitions in assignment.items()}


def _owned_from_record(listed: Sequence[TopicPartitions], member_epoch: int) -> OwnedPartitions:
    """Before Kafka 4.3 records did not have the epochs of partitions: then a member's own stands in."""
    owned = {}
    for topic in listed:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [max(member_epoch, 0)] * len(topic.partitions)
        owned[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return owned
