"""MirrorMaker 2, from a broker to another, with everything that it syncs, at an interval of a second."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from payloads import wait_until

from conformance.reference.jars import missing
from conformance.reference.tools import FAST_START, java_command
from oncelog.testing import Broker

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(240)]

COUNT = 10
TOPIC, GROUP = "orders", "billing"
MIRRORED = f"source.{TOPIC}"
PATIENCE_S = 180
ACLS_WERE_ASKED_FOR = "No ACL authorizer is configured on the source Kafka cluster"
SETTINGS = """
clusters=source, target
source.bootstrap.servers={source}
target.bootstrap.servers={target}
source->target.enabled=true
source->target.topics=orders
source->target.groups=billing
target->source.enabled=false
target->source.emit.heartbeats.enabled=false
sync.group.offsets.enabled=true
offset.lag.max=0
tasks.max=1
plugin.discovery=service_load
replication.factor=1
checkpoints.topic.replication.factor=1
heartbeats.topic.replication.factor=1
offset-syncs.topic.replication.factor=1
config.storage.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
offset.storage.partitions=1
status.storage.partitions=1
refresh.topics.interval.seconds=1
refresh.groups.interval.seconds=1
sync.topic.acls.interval.seconds=1
sync.topic.configs.interval.seconds=1
sync.group.offsets.interval.seconds=1
emit.heartbeats.interval.seconds=1
emit.checkpoints.interval.seconds=1
"""


@contextmanager
def mirror_maker(source: str, target: str, directory: Path) -> Iterator[Path]:
    """MirrorMaker while it runs, as the file that it logs to. It is killed: when it stops in order, it logs errors."""
    properties, log = directory / "mm2.properties", directory / "mm2.log"
    properties.write_text(SETTINGS.format(source=source, target=target))
    options = (*FAST_START, "-Xmx512m", "-Dkafka.log.level=INFO")
    main_class = "org.apache.kafka.connect.mirror.MirrorMaker"
    with log.open("wb") as file:
        process = subprocess.Popen(
            java_command(main_class, str(properties), jvm_options=options), stdout=file, stderr=file
        )
        try:
            yield log
        finally:
            process.kill()
            process.wait()


def fill(address: str) -> None:
    """A topic with records, and a group that has read some of them."""
    producer = confluent_kafka.Producer({"bootstrap.servers": address, "log_level": 0})
    for number in range(COUNT):
        producer.produce(TOPIC, key=b"%d" % number, value=b"order %d" % number, partition=0)
    assert producer.flush(30) == 0
    consumer = confluent_kafka.Consumer({"bootstrap.servers": address, "group.id": GROUP, "log_level": 0})
    consumer.commit(offsets=[TopicPartition(TOPIC, 0, COUNT)], asynchronous=False)
    consumer.close()


class Target:
    """What has arrived on the other side."""

    def __init__(self, address: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
        self._consumer = confluent_kafka.Consumer({"bootstrap.servers": address, "group.id": "reader", "log_level": 0})
        self._is_reading = False
        self.values: list[bytes | None] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def has_records(self) -> bool:
        if not self._is_reading:
            if MIRRORED not in self._consumer.list_topics(timeout=30).topics:
                return False
            self._consumer.assign([TopicPartition(MIRRORED, 0, confluent_kafka.OFFSET_BEGINNING)])
            self._is_reading = True
        message = self._consumer.poll(0.1)
        if message is not None and message.error() is None:
            self.values.append(message.value())
        return len(self.values) == COUNT

    def has_offset(self) -> bool:
        """Whether the group stands where it stands on the source."""
        asked = confluent_kafka.ConsumerGroupTopicPartitions(GROUP)
        found = self._admin.list_consumer_group_offsets([asked])[GROUP].result(30).topic_partitions or ()
        return any(place.topic == MIRRORED and place.offset == COUNT for place in found)


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_records_offsets_and_acls_are_synced_without_an_error(tmp_path: Path) -> None:
    with Broker() as source, Broker() as target_broker:
        fill(source.bootstrap_servers)
        addresses = source.bootstrap_servers, target_broker.bootstrap_servers
        with mirror_maker(*addresses, tmp_path) as log, Target(target_broker.bootstrap_servers) as target:
            wait_until(target.has_records, "the records are mirrored", PATIENCE_S)
            wait_until(target.has_offset, "the group's offset is synced", PATIENCE_S)
            wait_until(lambda: ACLS_WERE_ASKED_FOR in log.read_text(), "the ACLs were asked for", PATIENCE_S)
            logged = log.read_text().splitlines()
    assert target.values == [b"order %d" % number for number in range(COUNT)]
    assert [line for line in logged if "] ERROR " in line or "Exception" in line] == []
