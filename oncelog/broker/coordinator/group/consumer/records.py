"""The records of consumer groups, as Kafka 4.3 writes them (types 3 to 8 and 16).

Lists are in ascending order where Kafka has that of its hash tables, so that equal states give equal bytes.
"""

from __future__ import annotations

from collections.abc import Iterable

from oncelog.broker.coordinator.contract import CoordinatorRecord
from oncelog.broker.coordinator.group.assignors import Assignment
from oncelog.broker.coordinator.group.consumer.member import ConsumerMember, OwnedPartitions
from oncelog.protocol.messages.group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartition,
    TopicPartitions,
)


def member_record(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    classic = None
    if member.classic is not None:
        classic = ClassicMemberMetadata(
            session_timeout_ms=member.classic.session_timeout_ms,
            supported_protocols=[
                ClassicProtocol(name=name, metadata=metadata) for name, metadata in member.classic.protocols
            ],
        )
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=classic,
    )
    return CoordinatorRecord(_member_key(group_id, member.member_id), value)


def group_record(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return CoordinatorRecord(ConsumerGroupMetadataKey(group_id=group_id), value)


def target_record(group_id: str, member_id: str, assignment: Assignment) -> CoordinatorRecord:
    value = ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TopicPartition(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in sorted(assignment.items())
        ]
    )
    return CoordinatorRecord(_target_key(group_id, member_id), value)


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> CoordinatorRecord:
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    return CoordinatorRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def current_record(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=member.state,
        assigned_partitions=_listed(member.assigned),
        partitions_pending_revocation=_listed(member.revoking),
    )
    return CoordinatorRecord(_current_key(group_id, member.member_id), value)


def regex_record(
    group_id: str, regex: str, topics: Iterable[str], version: int, timestamp_ms: int
) -> CoordinatorRecord:
    value = ConsumerGroupRegularExpressionValue(topics=sorted(topics), version=version, timestamp=timestamp_ms)
    return CoordinatorRecord(_regex_key(group_id, regex), value)


def regex_tombstone(group_id: str, regex: str) -> CoordinatorRecord:
    return CoordinatorRecord(_regex_key(group_id, regex), None)


def partition_metadata_tombstone(group_id: str) -> CoordinatorRecord:
    """Of the record in which Kafka before 4.1 kept what the hash in the group's record stands for now."""
    return CoordinatorRecord(ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    return [
        CoordinatorRecord(_current_key(group_id, member_id), None),
        CoordinatorRecord(_target_key(group_id, member_id), None),
        CoordinatorRecord(_member_key(group_id, member_id), None),
    ]


def group_tombstones(group_id: str, member_ids: Iterable[str], regexes: Iterable[str]) -> list[CoordinatorRecord]:
    member_ids = list(member_ids)
    return [
        *(CoordinatorRecord(_current_key(group_id, member_id), None) for member_id in member_ids),
        *(CoordinatorRecord(_target_key(group_id, member_id), None) for member_id in member_ids),
        CoordinatorRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        *(CoordinatorRecord(_member_key(group_id, member_id), None) for member_id in member_ids),
        *(regex_tombstone(group_id, regex) for regex in regexes),
        partition_metadata_tombstone(group_id),
        CoordinatorRecord(ConsumerGroupMetadataKey(group_id=group_id), None),
    ]


def _member_key(group_id: str, member_id: str) -> ConsumerGroupMemberMetadataKey:
    return ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id)


def _target_key(group_id: str, member_id: str) -> ConsumerGroupTargetAssignmentMemberKey:
    return ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)


def _current_key(group_id: str, member_id: str) -> ConsumerGroupCurrentMemberAssignmentKey:
    return ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)


def _regex_key(group_id: str, regex: str) -> ConsumerGroupRegularExpressionKey:
    return ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)


def _listed(owned: OwnedPartitions) -> list[TopicPartitions]:
    listed = []
    for topic_id, epochs in sorted(owned.items()):
        partitions = sorted(epochs)
        listed.append(
            TopicPartitions(
                topic_id=topic_id,
                partitions=partitions,
                assignment_epochs=[epochs[partition] for partition in partitions],
            )
        )
    return listed
