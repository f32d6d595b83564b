from __future__ import annotations

from collections.abc import Callable

import pytest

from oncelog.client.admin import Admin
from oncelog.client.cluster import Cluster
from oncelog.client.errors import UnknownTopic
from oncelog.client.producer import Producer
from oncelog.protocol.errors import ErrorCode, KafkaError


def test_a_topic_from_creation_to_deletion(cluster: Cluster, admin: Admin, new_name: Callable[[], str]) -> None:
    name = new_name()
    created = admin.create_topic(name, partitions=2, replication_factor=1, configs={"retention.ms": "1000000"})
    assert len(created.partitions) == 2
    assert [(each.name, each.value) for each in admin.describe_configs(name) if not each.is_default] == [
        ("retention.ms", "1000000")
    ]
    admin.create_partitions(name, 3)
    assert len(cluster.topic(name).partitions) == 3
    admin.alter_configs(name, values={"cleanup.policy": "compact"}, deleted=["retention.ms"])
    assert [(each.name, each.value) for each in admin.describe_configs(name) if not each.is_default] == [
        ("cleanup.policy", "compact")
    ]
    admin.delete_topic(name)
    with pytest.raises(UnknownTopic):
        cluster.topic(name)


def test_offsets_and_sizes_are_described(cluster: Cluster, admin: Admin, topic: str) -> None:
    with Producer(cluster) as producer:
        for _ in range(5):
            producer.produce(topic, bytes(100), partition=1)
    (state,) = admin.describe_topics(topic)
    assert [(each.start_offset, each.end_offset) for each in state.partitions] == [(0, 0), (0, 5), (0, 0)]
    assert state.partitions[0].size_bytes == 0
    assert (state.partitions[1].size_bytes or 0) > 500
    assert topic in [each.name for each in admin.describe_topics()]


def test_refusals_carry_their_code(admin: Admin, topic: str, new_name: Callable[[], str]) -> None:
    with pytest.raises(KafkaError) as caught:
        admin.create_topic(topic)
    assert caught.value.code == ErrorCode.TOPIC_ALREADY_EXISTS
    with pytest.raises(KafkaError) as caught:
        admin.create_topic(new_name(), configs={"no.such.config": "1"})
    assert caught.value.code == ErrorCode.INVALID_CONFIG
    with pytest.raises(KafkaError) as caught:
        admin.create_partitions(topic, 2)
    assert caught.value.code == ErrorCode.INVALID_PARTITIONS


def test_unknown_topics_are_told_by_name(admin: Admin, new_name: Callable[[], str]) -> None:
    name = new_name()
    for action in (
        lambda: admin.delete_topic(name),
        lambda: admin.create_partitions(name, 2),
        lambda: admin.describe_topics(name),
        lambda: admin.alter_configs(name, values={"retention.ms": "1"}),
    ):
        with pytest.raises(UnknownTopic, match=f"there is no topic '{name}'"):
            action()
