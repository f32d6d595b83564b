"""The range assignor: each member gets a run of consecutive partitions of each of its topics.

Members are in the order of their instance ids, then of their member ids, and the first ones get one more where a
topic does not divide evenly. Nothing depends on the present assignment.
"""

from __future__ import annotations

from oncelog.broker.coordinator.group.assignors import AssignableGroup, Assignment


def assign_ranges(group: AssignableGroup) -> dict[str, Assignment]:
    subscribers: dict[bytes, list[str]] = {}
    order = sorted(group.members, key=lambda member_id: _rank(group, member_id))
    for member_id in order:
        for topic_id in group.members[member_id].topics:
            subscribers.setdefault(topic_id, []).append(member_id)
    assignments: dict[str, dict[bytes, frozenset[int]]] = {member_id: {} for member_id in group.members}
    for topic_id, member_ids in subscribers.items():
        quota, extra_count = divmod(group.topics[topic_id].partition_count, len(member_ids))
        start = 0
        for place, member_id in enumerate(member_ids):
            end = start + quota + (place < extra_count)
            if start < end:
                assignments[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return dict(assignments)


def _rank(group: AssignableGroup, member_id: str) -> tuple[bool, str]:
    instance_id = group.members[member_id].instance_id
    return (False, instance_id) if instance_id is not None else (True, member_id)
