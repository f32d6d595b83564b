"""Records of consumer groups take effect: the only code that changes the groups of a shard, live and on load."""

from __future__ import annotations

from oncelog.broker.coordinator.contract import ReplayContext
from oncelog.broker.coordinator.group.common import Groups, Replay
from oncelog.broker.coordinator.group.consumer.consumer_group import ConsumerGroup, ResolvedRegex
from oncelog.broker.coordinator.group.consumer.member import ConsumerMember
from oncelog.protocol.messages.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)

RECORD_PAIRS = (
    (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
    (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
    (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
    (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
    (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
)

_NO_ASSIGNMENT_EPOCH = -1


class ConsumerReplay:
    """A tombstone of what is not there means nothing: compaction may have removed what it deletes."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups

    def replays(self) -> dict[type, Replay]:
        return {
            ConsumerGroupMetadataKey: self._group,
            ConsumerGroupPartitionMetadataKey: self._partition_metadata,
            ConsumerGroupMemberMetadataKey: self._member,
            ConsumerGroupTargetAssignmentMetadataKey: self._target_epoch,
            ConsumerGroupTargetAssignmentMemberKey: self._target,
            ConsumerGroupCurrentMemberAssignmentKey: self._current,
            ConsumerGroupRegularExpressionKey: self._regex,
        }

    def _find(self, group_id: str) -> ConsumerGroup | None:
        group = self._groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def _ensure(self, group_id: str) -> ConsumerGroup:
        """In place of a classic group that was only thought up for offsets whose group comes later in the log."""
        group = self._find(group_id)
        if group is None:
            group = ConsumerGroup(group_id)
            self._groups.put(group)
        return group

    def _group(self, key: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue | None, _: ReplayContext) -> None:
        if value is not None:
            group = self._ensure(key.group_id)
            group.group_epoch = value.epoch
            group.metadata_hash = value.metadata_hash
        elif self._find(key.group_id) is not None:
            self._groups.remove(key.group_id)

    def _partition_metadata(
        self,
        key: ConsumerGroupPartitionMetadataKey,
        value: ConsumerGroupPartitionMetadataValue | None,
        _: ReplayContext,
    ) -> None:
        group = self._find(key.group_id) if value is None else self._ensure(key.group_id)
        if group is not None:
            group.has_partition_metadata = value is not None

    def _member(
        self, key: ConsumerGroupMemberMetadataKey, value: ConsumerGroupMemberMetadataValue | None, _: ReplayContext
    ) -> None:
        if value is not None:
            group = self._ensure(key.group_id)
            member = group.members.get(key.member_id) or ConsumerMember(key.member_id)
            group.install_member(member.with_metadata(value))
        elif (found := self._find(key.group_id)) is not None:
            found.remove_member(key.member_id)

    def _target_epoch(
        self,
        key: ConsumerGroupTargetAssignmentMetadataKey,
        value: ConsumerGroupTargetAssignmentMetadataValue | None,
        context: ReplayContext,
    ) -> None:
        if value is not None:
            group = self._ensure(key.group_id)
            group.assignment_epoch = value.assignment_epoch
            group.assigned_ms = context.now.steady_at(value.assignment_timestamp)
        elif (found := self._find(key.group_id)) is not None:
            found.assignment_epoch = _NO_ASSIGNMENT_EPOCH

    def _target(
        self,
        key: ConsumerGroupTargetAssignmentMemberKey,
        value: ConsumerGroupTargetAssignmentMemberValue | None,
        _: ReplayContext,
    ) -> None:
        if value is not None:
            self._ensure(key.group_id).targets[key.member_id] = {
                listed.topic_id: frozenset(listed.partitions) for listed in value.topic_partitions
            }
        elif (found := self._find(key.group_id)) is not None:
            found.targets.pop(key.member_id, None)

    def _current(
        self,
        key: ConsumerGroupCurrentMemberAssignmentKey,
        value: ConsumerGroupCurrentMemberAssignmentValue | None,
        _: ReplayContext,
    ) -> None:
        if value is not None:
            group = self._ensure(key.group_id)
            member = group.members.get(key.member_id) or ConsumerMember(key.member_id)
            group.install_member(member.with_assignment(value))
        elif (found := self._find(key.group_id)) is not None and key.member_id in found.members:
            found.install_member(found.members[key.member_id].with_assignment(None))

    def _regex(
        self,
        key: ConsumerGroupRegularExpressionKey,
        value: ConsumerGroupRegularExpressionValue | None,
        _: ReplayContext,
    ) -> None:
        if value is not None:
            resolved = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
            self._ensure(key.group_id).regexes[key.regular_expression] = resolved
        elif (found := self._find(key.group_id)) is not None:
            found.regexes.pop(key.regular_expression, None)
