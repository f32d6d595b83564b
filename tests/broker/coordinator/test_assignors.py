"""The assignors, by what they promise. tests/conformance compares them with those of Apache Kafka."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.broker.coordinator.group.assignors import (
    AssignableGroup,
    AssignableMember,
    AssignableTopic,
    Assignment,
    find_assignor,
)

uniform, ranges = find_assignor("uniform"), find_assignor("range")
A, B, C = (bytes([letter]) * 16 for letter in b"ABC")


def group(members: Mapping[str, AssignableMember], **partition_counts: int) -> AssignableGroup:
    topics = {name.encode() * 16: AssignableTopic(count) for name, count in partition_counts.items()}
    subscriptions = {member.topics for member in members.values()}
    return AssignableGroup(members, topics, homogeneous=len(subscriptions) == 1)


def member(*topics: bytes, current: Assignment | None = None, **fields: str) -> AssignableMember:
    return AssignableMember(frozenset(topics), current or {}, **fields)


def sizes(assignments: Mapping[str, Assignment]) -> list[int]:
    return sorted(sum(map(len, assignment.values())) for assignment in assignments.values())


def test_ranges_put_equal_partitions_of_equal_topics_together() -> None:
    members = {"a": member(A, B), "b": member(A, B)}
    assert ranges(group(members, A=3, B=3)) == {
        "a": {A: frozenset({0, 1}), B: frozenset({0, 1})},
        "b": {A: frozenset({2}), B: frozenset({2})},
    }


def test_ranges_are_in_the_order_of_instance_ids_and_then_of_member_ids() -> None:
    members = {"a": member(A), "z": member(A, instance_id="2"), "y": member(A, instance_id="9")}
    assert ranges(group(members, A=4)) == {
        "z": {A: frozenset({0, 1})},
        "y": {A: frozenset({2})},
        "a": {A: frozenset({3})},
    }


def test_ranges_of_more_members_than_partitions_and_of_different_subscriptions() -> None:
    members = {"a": member(A), "b": member(A, B), "c": member(B)}
    assert ranges(group(members, A=1, B=3)) == {
        "a": {A: frozenset({0})},
        "b": {B: frozenset({0, 1})},
        "c": {B: frozenset({2})},
    }


def test_uniform_shares_evenly_and_is_sticky() -> None:
    first = uniform(group({"a": member(A)}, A=5))
    assert first == {"a": {A: frozenset(range(5))}}
    second = uniform(group({"a": member(A, current=first["a"]), "b": member(A)}, A=5))
    assert sizes(second) == [2, 3]
    assert second["a"][A] < first["a"][A]
    third = uniform(group({name: member(A, current=second[name]) for name in second}, A=5))
    assert third == second


def test_uniform_gives_the_partitions_of_one_who_left_to_the_others() -> None:
    members = {"a": member(A, current={A: frozenset({0, 1})}), "b": member(A, current={A: frozenset({2, 3})})}
    assigned = uniform(group(members, A=6))
    assert sizes(assigned) == [3, 3]
    assert assigned["a"][A] >= {0, 1}
    assert assigned["b"][A] >= {2, 3}


def test_uniform_forgets_topics_that_nobody_wants() -> None:
    members = {"a": member(A, current={B: frozenset({0})})}
    assert uniform(group(members, A=1)) == {"a": {A: frozenset({0})}}
    assert uniform(group({"a": member()})) == {"a": {}}
    assert uniform(group({})) == {}


def test_uniform_prefers_partitions_that_are_near() -> None:
    members = {"a": member(A, rack="r1"), "b": member(A, rack="r2")}
    racks = tuple(frozenset({f"r{1 + index % 2}"}) for index in range(4))
    topics = {A: AssignableTopic(4, racks)}
    assigned = uniform(AssignableGroup(members, topics, homogeneous=True))
    assert assigned == {"a": {A: frozenset({0, 2})}, "b": {A: frozenset({1, 3})}}


def test_uniform_balances_over_different_subscriptions() -> None:
    members = {"a": member(A), "b": member(A, B), "c": member(B)}
    assigned = uniform(group(members, A=4, B=4))
    assert sizes(assigned) == [2, 3, 3]
    assert assigned["a"].keys() == {A}
    assert assigned["c"].keys() == {B}


def test_uniform_moves_partitions_from_the_loaded_to_the_idle() -> None:
    members = {"a": member(A, B, current={A: frozenset(range(6))}), "b": member(A)}
    assigned = uniform(group(members, A=6, B=2))
    assert sizes(assigned) == [4, 4]
    assert assigned["a"][B] == {0, 1}


@st.composite
def groups(draw: st.DrawFn) -> AssignableGroup:
    counts = {topic: draw(st.integers(1, 12)) for topic in (A, B, C)}
    owned = {
        (topic, partition): draw(st.integers(0, 5)) for topic, count in counts.items() for partition in range(count)
    }
    members = {}
    same = draw(st.booleans())
    subscription = draw(st.frozensets(st.sampled_from([A, B, C])))
    for index in range(draw(st.integers(1, 5))):
        topics = subscription if same else draw(st.frozensets(st.sampled_from([A, B, C])))
        current: dict[bytes, set[int]] = {}
        for (topic, partition), owner in owned.items():
            if owner == index:
                current.setdefault(topic, set()).add(partition)
        members[f"member-{index}"] = AssignableMember(
            topics, {topic: frozenset(partitions) for topic, partitions in current.items()}
        )
    subscribed = frozenset[bytes]().union(*(member.topics for member in members.values()))
    topics_of = {topic: AssignableTopic(counts[topic]) for topic in subscribed}
    return AssignableGroup(members, topics_of, homogeneous=len({m.topics for m in members.values()}) == 1)


@given(groups(), st.sampled_from(["uniform", "range"]))
@settings(max_examples=200, deadline=None)
def test_every_partition_has_exactly_one_owner_who_is_subscribed_to_it(drawn: AssignableGroup, name: str) -> None:
    assigned = find_assignor(name)(drawn)
    assert assigned.keys() == drawn.members.keys()
    given_out = [
        (topic, partition)
        for member_id, assignment in assigned.items()
        for topic, partitions in assignment.items()
        for partition in partitions
        if topic in drawn.members[member_id].topics
    ]
    wanted = [(topic, index) for topic, facts in drawn.topics.items() for index in range(facts.partition_count)]
    assert sorted(given_out) == sorted(wanted)


@given(groups())
@settings(max_examples=200, deadline=None)
def test_uniform_is_balanced_and_stays_as_it_is(drawn: AssignableGroup) -> None:
    assigned = uniform(drawn)
    if drawn.homogeneous:
        loads = sizes(assigned)
        assert loads[-1] - loads[0] <= 1
        moved_in = sum(
            len(partitions - drawn.members[member_id].current.get(topic, frozenset()))
            for member_id, assignment in assigned.items()
            for topic, partitions in assignment.items()
        )
        assert moved_in <= _moves_needed(drawn)
    again = {
        member_id: drawn.members[member_id]._replace(current=assignment) for member_id, assignment in assigned.items()
    }
    assert uniform(drawn._replace(members=again)) == assigned


def _moves_needed(drawn: AssignableGroup) -> int:
    """Partitions without an owner, and what members have beyond their share."""
    total = sum(topic.partition_count for topic in drawn.topics.values())
    even, extra = divmod(total, len(drawn.members))
    loads = sorted(
        (
            sum(len(partitions) for topic, partitions in member.current.items() if topic in member.topics)
            for member in drawn.members.values()
        ),
        reverse=True,
    )
    kept = sum(min(load, even + (place < extra)) for place, load in enumerate(loads))
    return total - kept
