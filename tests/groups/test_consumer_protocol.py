"""Stock clients with `group.protocol=consumer` come, go and die, and live on with the broker's restart (KIP-848)."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from consumer_members import ConsumerProtocolMember, JavaMember
from members import ALL, Admin, ConfluentMember, in_a_process, shared, until

from conformance.reference.jars import missing
from oncelog.testing import Broker

SETTINGS = {
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 100,
    "group.consumer.min.session.timeout.ms": 1000,
    "group.consumer.session.timeout.ms": 3000,
    "group.consumer.assignment.interval.ms": 0,
}
"""So that a test does not wait for the next heartbeat in five seconds."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(SETTINGS) as broker:
        yield broker


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_members_come_and_go(broker: Broker, admin: Admin, group_id: str, assignor: str) -> None:
    topic = admin.new_topic()
    options = {"group_remote_assignor": assignor}
    first = ConsumerProtocolMember(broker.bootstrap_servers, group_id, topic, **options)
    until(lambda: shared(first))
    second = ConsumerProtocolMember(broker.bootstrap_servers, group_id, topic, **options)
    until(lambda: shared(first, second))
    admin.produce(topic, 40)
    until(lambda: len(first.received) + len(second.received) >= 40)
    assert sorted(first.received + second.received) == [(p, o) for p in range(4) for o in range(10)]
    until(lambda: admin.committed(group_id) == dict.fromkeys(ALL, 10))
    until(lambda: admin.group(group_id).state.name == "STABLE")
    described = admin.group(group_id)
    assert (described.type.name, described.partition_assignor) == ("CONSUMER", assignor)
    second.stop()
    until(lambda: shared(first))
    first.stop()
    until(lambda: admin.group(group_id).state.name == "EMPTY")
    assert admin.committed(group_id) == dict.fromkeys(ALL, 10)
    admin.delete_group(group_id)
    assert group_id not in admin.groups()


def test_member_that_dies_loses_its_partitions_when_its_session_ends(
    broker: Broker, admin: Admin, group_id: str
) -> None:
    topic = admin.new_topic()
    survivor = ConsumerProtocolMember(broker.bootstrap_servers, group_id, topic)
    until(lambda: shared(survivor))
    with in_a_process(ConsumerProtocolMember, broker.bootstrap_servers, group_id, topic) as victim:
        until(lambda: len(survivor.assigned) == 2)
        victim.send_signal(signal.SIGKILL)
    until(lambda: shared(survivor))
    survivor.stop()


def test_members_find_a_topic_by_an_expression(broker: Broker, admin: Admin, group_id: str) -> None:
    topic = admin.new_topic()
    member = ConsumerProtocolMember(broker.bootstrap_servers, group_id, f"^{topic[:-1]}.$")
    until(lambda: member.assigned == {(topic, partition) for partition in ALL})
    member.stop()


def test_static_member_returns_to_its_partitions(broker: Broker, admin: Admin, group_id: str) -> None:
    topic = admin.new_topic()
    one = ConsumerProtocolMember(broker.bootstrap_servers, group_id, topic, group_instance_id="one")
    two = ConsumerProtocolMember(broker.bootstrap_servers, group_id, topic, group_instance_id="two")
    until(lambda: shared(one, two))
    before, one_before = two.assigned, one.assignment_count
    two.stop()
    again = ConsumerProtocolMember(broker.bootstrap_servers, group_id, topic, group_instance_id="two")
    until(lambda: again.assigned == before)
    assert one.assignment_count == one_before
    one.stop()
    again.stop()


def test_members_of_both_protocols_share_a_group_on_its_way_to_the_new_one_and_back(
    broker: Broker, admin: Admin, group_id: str
) -> None:
    topic = admin.new_topic()
    options = {"partition_assignment_strategy": "cooperative-sticky"}
    old = ConfluentMember(broker.bootstrap_servers, group_id, topic, **options)
    until(lambda: shared(old))
    new = ConsumerProtocolMember(broker.bootstrap_servers, group_id, topic)
    until(lambda: shared(old, new))
    assert admin.group(group_id).type.name == "CONSUMER"
    admin.produce(topic, 40)
    until(lambda: admin.committed(group_id) == dict.fromkeys(ALL, 10))
    new.stop()
    until(lambda: shared(old))
    assert admin.group(group_id).type.name == "CLASSIC"
    old.stop()


def test_members_and_offsets_outlive_the_broker() -> None:
    with Broker(SETTINGS | {"group.consumer.session.timeout.ms": 30_000}, subprocess=True) as broker:
        admin = Admin(broker.bootstrap_servers)
        topic = admin.new_topic()
        members = [ConsumerProtocolMember(broker.bootstrap_servers, "g", topic) for _ in range(2)]
        until(lambda: all(len(member.assigned) == 2 for member in members))
        admin.produce(topic, 40)
        until(lambda: admin.committed("g") == dict.fromkeys(ALL, 10))
        before = [(member.assigned, member.assignment_count) for member in members]
        ids = {member.member_id for member in admin.group("g").members}
        broker.kill()
        broker.restart()
        assert admin.committed("g") == dict.fromkeys(ALL, 10)
        admin.produce(topic, 40)
        until(lambda: admin.committed("g") == dict.fromkeys(ALL, 20))
        # The members went on by heartbeat: nothing moved, and nothing was read twice.
        assert [(member.assigned, member.assignment_count) for member in members] == before
        assert sum(len(member.received) for member in members) == 80
        assert {member.member_id for member in admin.group("g").members} == ids
        for member in members:
            member.stop()


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_java_consumers_share_with_each_other_and_with_librdkafka(broker: Broker, admin: Admin, group_id: str) -> None:
    topic = admin.new_topic()
    first = JavaMember(broker.bootstrap_servers, group_id, topic)
    until(lambda: shared(first))
    second = JavaMember(broker.bootstrap_servers, group_id, topic)
    until(lambda: shared(first, second))
    third = ConsumerProtocolMember(broker.bootstrap_servers, group_id, topic)
    until(lambda: shared(first, second, third))
    admin.produce(topic, 40)
    until(lambda: admin.committed(group_id) == dict.fromkeys(ALL, 10))
    second.kill()
    until(lambda: shared(first, third))
    first.stop()
    until(lambda: shared(third))
    third.stop()
