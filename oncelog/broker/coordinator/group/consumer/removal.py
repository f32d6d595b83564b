"""Members of a consumer group are removed: they leave, or are not heard of, or do not give partitions up."""

from __future__ import annotations

from collections.abc import Sequence

from oncelog.broker.coordinator.effects import Effects
from oncelog.broker.coordinator.group.consumer.consumer_group import ConsumerGroup, subscribed_topics
from oncelog.broker.coordinator.group.consumer.member import ConsumerMember
from oncelog.broker.coordinator.group.consumer.records import group_record, member_tombstones, regex_tombstone
from oncelog.broker.coordinator.group.consumer.timers import cancel_timers
from oncelog.broker.coordinator.group.consumer.topics import TopicMetadata


def remove_members(
    group: ConsumerGroup, leaving: Sequence[ConsumerMember], topics: TopicMetadata, effects: Effects
) -> None:
    """The others get their partitions with the target of the next epoch."""
    group_id = group.group_id
    gone = {member.member_id for member in leaving}
    remaining = [member for member in group.members.values() if member.member_id not in gone]
    for member in leaving:
        effects.write(*member_tombstones(group_id, member.member_id))
        cancel_timers(group_id, member.member_id, effects)
    used = {member.topic_regex for member in remaining}
    effects.write(*(regex_tombstone(group_id, regex) for regex in group.regexes if regex not in used))
    names = frozenset[str]().union(*(subscribed_topics(member, group.regexes) for member in remaining))
    effects.write(group_record(group_id, group.group_epoch + 1, topics.hash_of(names)))
