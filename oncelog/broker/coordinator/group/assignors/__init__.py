"""The assignors of consumer groups (KIP-848): which member should have which partitions.

    uniform  as even as possible, moving as little as possible (assignor_uniform.py, assignor_heterogeneous.py)
    range    ranges of each topic, so that equal partitions of equally large topics go together (assignor_range.py)

They are functions of the members with their subscriptions and present targets, and of the topics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from oncelog.broker.coordinator.group.settings import RANGE, UNIFORM
from oncelog.named_tuple import NamedTuple

Assignment = Mapping[bytes, frozenset[int]]
"""Partitions by topic id; a topic without partitions is not there."""

NOTHING: Assignment = {}
NO_RACKS: tuple[frozenset[str], ...] = ()


class AssignableTopic(NamedTuple):
    partition_count: int
    racks: tuple[frozenset[str], ...] = NO_RACKS
    """Of each partition, where its replicas are; empty if no broker has a rack."""


class AssignableMember(NamedTuple):
    topics: frozenset[bytes]
    current: Assignment = NOTHING
    """The target that it has so far; its topics and partitions exist."""
    instance_id: str | None = None
    rack: str | None = None


class AssignableGroup(NamedTuple):
    members: Mapping[str, AssignableMember]
    topics: Mapping[bytes, AssignableTopic]
    """All that anyone is subscribed to."""
    homogeneous: bool
    """Whether all members subscribe to the same topics."""


Assignor = Callable[[AssignableGroup], dict[str, Assignment]]
"""Gives every member its assignment."""


def find_assignor(name: str) -> Assignor:
    from oncelog.broker.coordinator.group.assignors.range import assign_ranges
    from oncelog.broker.coordinator.group.assignors.uniform import assign_uniformly

    return {UNIFORM: assign_uniformly, RANGE: assign_ranges}[name]
