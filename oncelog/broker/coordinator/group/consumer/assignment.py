"""The target assignment of a consumer group: what its members should have in the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from oncelog.broker.coordinator.group.assignors import AssignableGroup, AssignableMember, Assignment, find_assignor
from oncelog.broker.coordinator.group.consumer.consumer_group import ConsumerGroup, ResolvedRegex, subscribed_topics
from oncelog.broker.coordinator.group.consumer.member import ConsumerMember
from oncelog.broker.coordinator.group.consumer.topics import TopicMetadata
from oncelog.broker.coordinator.java_order import in_text_order

Regexes = Mapping[str, ResolvedRegex]


def compute_targets(
    group: ConsumerGroup,
    members: Mapping[str, ConsumerMember],
    regexes: Regexes,
    topics: TopicMetadata,
    default_assignor: str,
) -> dict[str, Assignment]:
    """For the members as they will be, who may differ from those of the group by one."""
    subscriptions: dict[tuple[frozenset[str], str], frozenset[bytes]] = {}
    assignable: dict[str, AssignableMember] = {}
    for member in members.values():
        subscription = member.topic_names, member.topic_regex
        topic_ids = subscriptions.get(subscription)
        if topic_ids is None:
            topic_ids = subscriptions[subscription] = topics.ids(subscribed_topics(member, regexes))
        current = group.target_of(member)
        assignable[member.member_id] = AssignableMember(topic_ids, current, member.instance_id, member.rack_id)
    with_racks = any(member.rack_id is not None for member in members.values())
    subscribed = frozenset[bytes]().union(*subscriptions.values())
    assign = find_assignor(_preferred_assignor(members.values()) or default_assignor)
    return assign(
        AssignableGroup(
            assignable,
            {topic_id: topics.assignable(topic_id, with_racks=with_racks) for topic_id in subscribed},
            homogeneous=len(subscriptions) == 1,
        )
    )


def _preferred_assignor(members: Iterable[ConsumerMember]) -> str | None:
    """The one that most members ask for."""
    votes = Counter(member.server_assignor for member in members if member.server_assignor is not None)
    return max(in_text_order(votes), key=lambda name: votes[name], default=None)
