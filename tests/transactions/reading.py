"""What readers see of a topic, and how it is made."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

TIMEOUT_S = 30


def create_topic(address: str, name: str, partitions: int, **configs: Any) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    settings = {key.replace("_", "."): str(value) for key, value in configs.items()}
    (created,) = admin.create_topics([NewTopic(name, partitions, 1, config=settings)]).values()
    created.result(TIMEOUT_S)


def topic_configs(address: str, topic: str) -> dict[str, str | None]:
    """What was set for the topic itself."""
    from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource

    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    (described,) = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)]).values()
    entries = described.result(TIMEOUT_S)
    own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return {name: entry.value for name, entry in entries.items() if entry.source == own}


def read(address: str, topic: str, partitions: int = 3, *, committed: bool = True) -> list[list[str]]:
    """The values of each partition up to its end as it is now, by a consumer that starts now."""
    pairs = read_pairs(address, topic, partitions, committed=committed)
    return [[value.decode() for _, value in partition] for partition in pairs]


def read_pairs(address: str, topic: str, partitions: int, *, committed: bool = True) -> list[list[tuple[bytes, bytes]]]:
    """The keys, or nothing, and the values."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "reader",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 20,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    pairs: list[list[tuple[bytes, bytes]]] = [[] for _ in range(partitions)]
    ended: set[int] = set()
    deadline = time.monotonic() + TIMEOUT_S
    try:
        while len(ended) < partitions:
            assert time.monotonic() < deadline, f"partitions {ended} ended, the others not"
            message = consumer.poll(1)
            if message is None:
                continue
            error = message.error()
            if error is None:
                pairs[message.partition()].append((message.key() or b"", message.value()))
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
            else:
                raise AssertionError(error)
    finally:
        consumer.close()
    return pairs


def stable_end(address: str, topic: str, partition: int, *, committed: bool = True) -> int:
    """The last stable offset, or the high watermark."""
    from confluent_kafka import IsolationLevel, TopicPartition
    from confluent_kafka.admin import AdminClient, OffsetSpec

    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    (found,) = admin.list_offsets(
        {TopicPartition(topic, partition): OffsetSpec.latest()}, isolation_level=level
    ).values()
    offset: int = found.result(TIMEOUT_S).offset
    return offset


def committed_offset(address: str, group_id: str, topic: str, partition: int) -> int | None:
    """What the group has committed, as a consumer with read_committed sees it."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": address, "group.id": group_id, "log_level": 0})
    try:
        (found,) = consumer.committed([TopicPartition(topic, partition)], TIMEOUT_S)
    finally:
        consumer.close()
    return found.offset if found.offset >= 0 else None


class Member:
    """Of a group, with partitions of the topic from the start."""

    def __init__(self, address: str, group_id: str, topic: str, protocol: str) -> None:
        from confluent_kafka import Consumer

        self._consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": group_id,
                "group.protocol": protocol,
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        self._consumer.subscribe([topic])
        deadline = time.monotonic() + TIMEOUT_S
        while not self._consumer.assignment():
            assert time.monotonic() < deadline, "no partitions were assigned"
            self._consumer.poll(0.1)

    def group_metadata(self) -> object:
        return self._consumer.consumer_group_metadata()

    def close(self) -> None:
        self._consumer.close()


def verify_data(directory: Path) -> None:
    """The files of a broker that was stopped are sound."""
    from oncelog.inspect.findings import Severity
    from oncelog.inspect.verify import Totals
    from oncelog.inspect.verify_data import find, verify

    found = list(verify(directory, find(directory), Totals(), lambda _: None))
    assert [finding.line() for finding in found if finding.severity is Severity.ERROR] == []
