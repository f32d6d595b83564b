"""Groups and offsets outlive the broker, however it ends."""

from __future__ import annotations

import pytest
from members import CONFLUENT, Admin, ConfluentMember, until

from oncelog.testing import Broker


@pytest.mark.parametrize("crash", [True, False], ids=["kill", "stop"])
def test_members_and_offsets_outlive_the_broker(crash: bool) -> None:
    with Broker(subprocess=True) as broker:
        admin = Admin(broker.bootstrap_servers)
        topic = admin.new_topic()
        members = [ConfluentMember(broker.bootstrap_servers, "g", topic) for _ in range(2)]
        until(lambda: all(len(member.assigned) == 2 for member in members))
        admin.produce(topic, 40)
        until(lambda: admin.committed("g") == dict.fromkeys(range(4), 10))
        before = [(member.assigned, member.assignment_count) for member in members]
        ids = {member.member_id for member in admin.group("g").members}
        if crash:
            broker.kill()
        broker.restart()
        assert admin.committed("g") == dict.fromkeys(range(4), 10)
        admin.produce(topic, 40)
        until(lambda: sum(len(member.received) for member in members) == 80)
        until(lambda: admin.committed("g") == dict.fromkeys(range(4), 20))
        # The members went on by heartbeat: no rebalance, and nothing was read twice.
        assert [(member.assigned, member.assignment_count) for member in members] == before
        assert {member.member_id for member in admin.group("g").members} == ids
        for member in members:
            member.stop()


def test_commit_that_was_acked_survives_every_crash() -> None:
    from confluent_kafka import Consumer, TopicPartition

    with Broker({"log.flush.on.ack": True}, subprocess=True) as broker:
        topic = Admin(broker.bootstrap_servers).new_topic(1)
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", **CONFLUENT})
        for offset in range(1, 5):
            consumer.commit(offsets=[TopicPartition(topic, 0, offset, f"note {offset}")], asynchronous=False)
            broker.kill()
            broker.restart()
            (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=10)
            assert (found.offset, found.metadata) == (offset, f"note {offset}")
        consumer.close()
