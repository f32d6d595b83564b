"""A consumer group as ConsumerGroupDescribe tells of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from oncelog.broker.coordinator.group.assignors import NOTHING
from oncelog.broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from oncelog.broker.coordinator.group.consumer.member import ConsumerMember
from oncelog.broker.coordinator.group.consumer.topics import TopicMetadata
from oncelog.protocol.messages.consumer_group_describe import Assignment, DescribedGroup, Member, TopicPartitions

_CLASSIC_MEMBER = 0
_CONSUMER_MEMBER = 1


def describe_group(group: ConsumerGroup, topics: TopicMetadata, default_assignor: str) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor or default_assignor,
        members=[_member(group, member, topics) for member in group.members.values()],
    )


def _member(group: ConsumerGroup, member: ConsumerMember, topics: TopicMetadata) -> Member:
    """What it still gives up is its own as well."""
    owned = {
        topic_id: [*member.assigned.get(topic_id, ()), *member.revoking.get(topic_id, ())]
        for topic_id in {*member.assigned, *member.revoking}
    }
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        assignment=_assignment(owned, topics),
        target_assignment=_assignment(group.targets.get(member.member_id, NOTHING), topics),
        member_type=_CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER,
    )


def _assignment(partitions: Mapping[bytes, Collection[int]], topics: TopicMetadata) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(indexes))
            for topic_id, indexes in sorted(partitions.items())
            if (name := topics.name(topic_id)) is not None
        ]
    )
