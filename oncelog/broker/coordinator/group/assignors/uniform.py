"""The uniform assignor: all members have equally many partitions, or one more, and keep what they have.

The algorithm here is for members who subscribe to the same topics; others are in assignor_heterogeneous.py. Kafka's
does not look at racks. Where partitions differ in the racks of their replicas, ours gives a member with a rack the
partitions that it can read there first, of those that are to be given out anyway: counts and moves stay the same.
"""

from __future__ import annotations

from oncelog.broker.coordinator.group.assignors import AssignableGroup, Assignment
from oncelog.broker.coordinator.group.assignors.heterogeneous import assign_heterogeneously
from oncelog.broker.coordinator.java_order import in_number_order, in_text_order, in_uuid_order
from oncelog.named_tuple import NamedTuple

Partition = tuple[bytes, int]


class _Unfilled(NamedTuple):
    member_id: str
    quota: int


def assign_uniformly(group: AssignableGroup) -> dict[str, Assignment]:
    if not group.members:
        return {}
    return _Homogeneous(group).assign() if group.homogeneous else assign_heterogeneously(group)


class _Homogeneous:
    def __init__(self, group: AssignableGroup) -> None:
        self._group = group
        self._order = in_text_order(group.members)
        self._topics = in_uuid_order(group.members[self._order[0]].topics)
        self._kept: dict[str, dict[bytes, set[int]]] = {}
        self._unfilled: list[_Unfilled] = []
        self._free: list[Partition] = []

    def assign(self) -> dict[str, Assignment]:
        self._find_free()
        self._keep_within_quotas()
        self._give_out()
        return {
            member_id: {topic_id: frozenset(partitions) for topic_id, partitions in kept.items() if partitions}
            for member_id, kept in self._kept.items()
        }

    def _find_free(self) -> None:
        taken: dict[bytes, set[int]] = {topic_id: set() for topic_id in self._topics}
        for member in self._group.members.values():
            for topic_id, partitions in member.current.items():
                if topic_id in taken:
                    taken[topic_id] |= partitions
        self._free = [
            (topic_id, partition)
            for topic_id in self._topics
            for partition in range(self._group.topics[topic_id].partition_count)
            if partition not in taken[topic_id]
        ]

    def _keep_within_quotas(self) -> None:
        """Members who already have more than the even share are the first to keep the extra partition."""
        partition_count = sum(self._group.topics[topic_id].partition_count for topic_id in self._topics)
        even, extra_count = divmod(partition_count, len(self._order))
        for place, member_id in enumerate(self._order):
            has_extra = extra_count > 0
            quota = self._keep(member_id, even + has_extra)
            if quota and has_extra and len(self._order) - place > extra_count:
                # Enough members are left to take the extra partitions, and one of them may have one already.
                quota -= 1
                has_extra = False
            if quota:
                self._unfilled.append(_Unfilled(member_id, quota))
            extra_count -= has_extra

    def _keep(self, member_id: str, quota: int) -> int:
        """What is left of the quota when the member has what it may keep of its partitions."""
        kept = self._kept[member_id] = {}
        current = self._group.members[member_id].current
        for topic_id in in_uuid_order(current):
            if topic_id not in self._topics:
                continue
            partitions = current[topic_id]
            if len(partitions) <= quota:
                kept[topic_id] = set(partitions)
                quota -= len(partitions)
                continue
            ordered = in_number_order(partitions)
            kept[topic_id] = set(ordered[:quota])
            self._free.extend((topic_id, partition) for partition in ordered[quota:])
            quota = 0
        return quota

    def _give_out(self) -> None:
        quotas = dict(self._unfilled)
        if self._racks_differ():
            self._give_out_by_rack(quotas)
        given = 0
        for member_id, quota in quotas.items():
            for topic_id, partition in self._free[given : given + quota]:
                self._kept[member_id].setdefault(topic_id, set()).add(partition)
            given += quota
        assert given >= len(self._free), "partitions are left over"

    def _racks_differ(self) -> bool:
        if all(self._group.members[unfilled.member_id].rack is None for unfilled in self._unfilled):
            return False
        return len({self._racks(partition) for partition in self._free}) > 1

    def _racks(self, partition: Partition) -> frozenset[str]:
        topic_id, index = partition
        racks = self._group.topics[topic_id].racks
        return racks[index] if racks else frozenset()

    def _give_out_by_rack(self, quotas: dict[str, int]) -> None:
        for member_id in quotas:
            rack = self._group.members[member_id].rack
            if rack is None:
                continue
            near = [partition for partition in self._free if rack in self._racks(partition)][: quotas[member_id]]
            for topic_id, index in near:
                self._kept[member_id].setdefault(topic_id, set()).add(index)
            quotas[member_id] -= len(near)
            taken = set(near)
            self._free = [partition for partition in self._free if partition not in taken]
