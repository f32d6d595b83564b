"""The uniform assignor for members who subscribe to different topics.

Members keep what they have and are still subscribed to. Free partitions go to the subscriber with the fewest
partitions; then, topic by topic, partitions move from the subscriber with the most to the one with the fewest as
long as they differ by two or more. Where subscriptions overlap without being the same this comes near to the best
balance, not always to it, so the number of rounds is limited.
"""

from __future__ import annotations

import heapq

from oncelog.broker.coordinator.group.assignors import AssignableGroup, Assignment
from oncelog.broker.coordinator.java_order import in_text_order

_ROUNDS_MAX = 16
_NOBODY = -1


def assign_heterogeneously(group: AssignableGroup) -> dict[str, Assignment]:
    return _Heterogeneous(group).assign()


class _Heterogeneous:
    """Members are known by their places in `_order`."""

    def __init__(self, group: AssignableGroup) -> None:
        self._group = group
        self._order = in_text_order(group.members)
        self._sizes = [0] * len(self._order)
        self._subscribers: dict[bytes, list[int]] = {}
        for place, member_id in enumerate(self._order):
            for topic_id in group.members[member_id].topics:
                self._subscribers.setdefault(topic_id, []).append(place)
        self._owners = {topic_id: [_NOBODY] * group.topics[topic_id].partition_count for topic_id in self._subscribers}

    def assign(self) -> dict[str, Assignment]:
        self._keep()
        topics = sorted(self._subscribers, key=self._urgency)
        for topic_id in topics:
            self._give_out(topic_id)
        self._balance([topic_id for topic_id in topics if len(self._subscribers[topic_id]) > 1])
        return self._assignments()

    def _urgency(self, topic_id: bytes) -> tuple[float, int, tuple[int, int]]:
        """First the topics with many partitions for few subscribers."""
        subscriber_count = len(self._subscribers[topic_id])
        partitions_each = self._group.topics[topic_id].partition_count / subscriber_count
        halves = (topic_id[:8], topic_id[8:])
        # Java compares the halves of a UUID as signed numbers.
        high, low = (int.from_bytes(half, "big", signed=True) for half in halves)
        return -partitions_each, subscriber_count, (high, low)

    def _keep(self) -> None:
        for place, member_id in enumerate(self._order):
            member = self._group.members[member_id]
            for topic_id, partitions in member.current.items():
                if topic_id in member.topics:
                    for partition in partitions:
                        self._owners[topic_id][partition] = place
                    self._sizes[place] += len(partitions)

    def _give_out(self, topic_id: bytes) -> None:
        owners = self._owners[topic_id]
        least_loaded = [(size, rank, place) for rank, (size, place) in enumerate(self._by_size(topic_id))]
        for partition, owner in enumerate(owners):
            if owner == _NOBODY:
                size, rank, place = least_loaded[0]
                heapq.heapreplace(least_loaded, (size + 1, rank, place))
                self._sizes[place] += 1
                owners[partition] = place

    def _by_size(self, topic_id: bytes) -> list[tuple[int, int]]:
        """The subscribers as (number of partitions, place), in order."""
        return sorted((self._sizes[place], place) for place in self._subscribers[topic_id])

    def _balance(self, topics: list[bytes]) -> None:
        """Ends when a whole round has moved nothing."""
        unchanged_count = 0
        for _ in range(_ROUNDS_MAX):
            for topic_id in topics:
                if self._balance_topic(topic_id):
                    unchanged_count = 0
                else:
                    unchanged_count += 1
                if unchanged_count >= len(topics):
                    return

    def _balance_topic(self, topic_id: bytes) -> bool:
        """Whether anything has moved."""
        ranked = self._by_size(topic_id)
        if ranked[-1][0] - ranked[0][0] <= 1:
            return False
        owned: dict[int, list[int]] = {}
        owners = self._owners[topic_id]
        for partition, owner in enumerate(owners):
            owned.setdefault(owner, []).append(partition)
        least_loaded = [(size, rank, place) for rank, (size, place) in enumerate(ranked)]
        most_loaded = [(-size, -rank, place) for rank, (size, place) in enumerate(ranked) if owned.get(place)]
        heapq.heapify(most_loaded)
        moved = False
        while most_loaded and -most_loaded[0][0] - least_loaded[0][0] > 1:
            negative_size, negative_rank, giver = most_loaded[0]
            size, rank, taker = least_loaded[0]
            partition = owned[giver].pop()
            owners[partition] = taker
            self._sizes[giver] -= 1
            self._sizes[taker] += 1
            heapq.heapreplace(least_loaded, (size + 1, rank, taker))
            if owned[giver]:
                heapq.heapreplace(most_loaded, (negative_size + 1, negative_rank, giver))
            else:
                heapq.heappop(most_loaded)
            moved = True
        return moved

    def _assignments(self) -> dict[str, Assignment]:
        found: list[dict[bytes, set[int]]] = [{} for _ in self._order]
        for topic_id, owners in self._owners.items():
            for partition, place in enumerate(owners):
                found[place].setdefault(topic_id, set()).add(partition)
        return {
            member_id: {topic_id: frozenset(partitions) for topic_id, partitions in topics.items()}
            for member_id, topics in zip(self._order, found, strict=True)
        }
