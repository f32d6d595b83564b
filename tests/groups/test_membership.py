"""Stock clients come, go and die, and share the partitions of a topic among them."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from members import (
    ALL,
    MEMBERS,
    Admin,
    AioKafkaMember,
    ConfluentMember,
    KafkaPythonMember,
    Member,
    in_a_process,
    shared,
    until,
)

from oncelog.testing import Broker

pytestmark = [
    # kafka-python reads its schemas in a way that Python 3.11 calls deprecated, and forgets to close sockets.
    pytest.mark.filterwarnings("ignore:.*_text is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"group.min.session.timeout.ms": 500}) as broker:
        yield broker


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Sockets that were forgotten are found while that is no error."""
    yield
    gc.collect()


def cooperative(kind: type[Member]) -> dict[str, Any]:
    if kind is ConfluentMember:
        return {"partition_assignment_strategy": "cooperative-sticky"}
    if kind is KafkaPythonMember:
        from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

        return {"partition_assignment_strategy": [StickyPartitionAssignor]}
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor as AioSticky

    return {"partition_assignment_strategy": [AioSticky]}


@pytest.mark.parametrize("sticky", [False, True], ids=["eager", "sticky"])
@pytest.mark.parametrize("kind", MEMBERS)
def test_members_come_and_go(broker: Broker, admin: Admin, group_id: str, kind: type[Member], sticky: bool) -> None:
    options = cooperative(kind) if sticky else {}
    topic = admin.new_topic()
    first = kind(broker.bootstrap_servers, group_id, topic, **options)
    until(lambda: shared(first))
    second = kind(broker.bootstrap_servers, group_id, topic, **options)
    until(lambda: shared(first, second))
    admin.produce(topic, 40)
    until(lambda: len(first.received) + len(second.received) >= 40)
    assert sorted(first.received + second.received) == [(p, o) for p in range(4) for o in range(10)]
    until(lambda: admin.committed(group_id) == dict.fromkeys(ALL, 10))
    second.stop()
    until(lambda: shared(first))
    first.stop()
    assert admin.group(group_id).state.name == "EMPTY"
    assert admin.committed(group_id) == dict.fromkeys(ALL, 10)


def test_clients_of_all_kinds_in_one_group(broker: Broker, admin: Admin, group_id: str) -> None:
    topic = admin.new_topic()
    members: list[Member] = []
    for kind in MEMBERS:
        options: dict[str, Any] = {}
        if kind is AioKafkaMember:
            from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AioRange

            options = {"partition_assignment_strategy": [AioRange]}
        members.append(kind(broker.bootstrap_servers, group_id, topic, **options))
        until(lambda: shared(*members))
    described = admin.group(group_id)
    assert described.state.name == "STABLE"
    assert described.partition_assignor == "range"
    assert len(described.members) == 3
    for member in members:
        member.stop()


def test_member_that_dies_loses_its_partitions_when_its_session_ends(
    broker: Broker, admin: Admin, group_id: str
) -> None:
    topic = admin.new_topic()
    survivor = ConfluentMember(broker.bootstrap_servers, group_id, topic)
    until(lambda: shared(survivor))
    arguments = (broker.bootstrap_servers, group_id, topic)
    with in_a_process(ConfluentMember, *arguments, session_timeout_ms=1000) as victim:
        until(lambda: len(survivor.assigned) == 2)
        victim.send_signal(signal.SIGKILL)
    until(lambda: shared(survivor))
    survivor.stop()


def test_static_member_returns_without_a_rebalance(broker: Broker, admin: Admin, group_id: str) -> None:
    topic = admin.new_topic()
    one = ConfluentMember(broker.bootstrap_servers, group_id, topic, group_instance_id="one")
    two = ConfluentMember(broker.bootstrap_servers, group_id, topic, group_instance_id="two")
    until(lambda: shared(one, two))
    before, one_before = two.assigned, one.assignment_count
    two.stop()
    assert len(admin.group(group_id).members) == 2
    again = ConfluentMember(broker.bootstrap_servers, group_id, topic, group_instance_id="two")
    until(lambda: again.assigned == before)
    assert one.assignment_count == one_before
    one.stop()
    again.stop()


def test_second_client_with_a_static_members_name_fences_the_first(broker: Broker, admin: Admin, group_id: str) -> None:
    topic = admin.new_topic()
    first = ConfluentMember(broker.bootstrap_servers, group_id, topic, group_instance_id="one")
    until(lambda: shared(first))
    second = ConfluentMember(broker.bootstrap_servers, group_id, topic, group_instance_id="one")
    until(lambda: shared(second))
    until(lambda: first.failure is not None)
    assert "Static consumer fenced" in str(first.failure)
    second.stop()


def test_group_and_topic_are_deleted(broker: Broker, admin: Admin, group_id: str) -> None:
    from confluent_kafka import KafkaException

    topic = admin.new_topic()
    member = ConfluentMember(broker.bootstrap_servers, group_id, topic)
    admin.produce(topic, 4)
    until(lambda: len(member.received) == 4)
    with pytest.raises(KafkaException, match="NON_EMPTY_GROUP"):
        admin.delete_group(group_id)
    member.stop()
    assert admin.committed(group_id)
    admin.delete_topic(topic)
    until(lambda: not admin.committed(group_id))
    admin.delete_group(group_id)
    assert group_id not in admin.groups()
    with pytest.raises(KafkaException, match="GROUP_ID_NOT_FOUND"):
        admin.delete_group(group_id)
