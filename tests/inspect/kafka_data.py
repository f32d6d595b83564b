"""Lets Apache Kafka write a data directory with all that a check looks at: codecs, idempotent and transactional
producers of both transaction versions, committed offsets, compaction, retention, an open transaction."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Consumer as LibrdkafkaConsumer
from confluent_kafka import Producer as LibrdkafkaProducer
from confluent_kafka import TopicPartition

from conformance.reference.kafka import ApacheKafka
from conformance.reference.tools import run_tool
from oncelog.client.admin import Admin
from oncelog.client.cluster import Cluster
from oncelog.client.offsets import EARLIEST, list_offsets
from oncelog.client.producer import Producer
from oncelog.protocol.records.compression import Compression

SETTINGS = {
    "log.cleaner.backoff.ms": "100",
    "log.initial.task.delay.ms": "100",
    "log.retention.check.interval.ms": "200",
    "log.segment.delete.delay.ms": "0",
    # Each index is a file of this size while it grows, and each copy of the data would copy it.
    "log.index.size.max.bytes": "65536",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
}
MIXED, RETAINED, COMPACTED, JAVA = "mixed", "retained", "compacted", "java"
WAIT_S = 30.0


def write_data(kafka: ApacheKafka) -> None:
    with Cluster(kafka.bootstrap_servers) as cluster:
        admin = Admin(cluster)
        segments = {"segment.bytes": "1048576"}
        admin.create_topic(MIXED, configs=segments)
        admin.create_topic(RETAINED, configs=segments | {"retention.bytes": "1500000"})
        admin.create_topic(JAVA)
        compaction = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "300"}
        admin.create_topic(COMPACTED, configs=compaction | {"delete.retention.ms": "0"})
        write_transactions(kafka, MIXED, "first", leave_open=False)
        write_codecs(cluster, MIXED)
        write_transactions(kafka, MIXED, "second", leave_open=True)
        write_random(cluster, RETAINED, 5_000_000)
        write_compacted(kafka, cluster)
        write_with_java(kafka)
        wait_until(lambda: list_offsets(cluster, {(RETAINED, 0): EARLIEST})[RETAINED, 0].offset > 0)


def write_codecs(cluster: Cluster, topic: str) -> None:
    for codec in Compression:
        with Producer(cluster, compression=codec, idempotent=True, batch_size_bytes=10_000) as producer:
            for number in range(6000):
                producer.produce(topic, random.randbytes(30) + b"%050d" % number, key=b"%d" % (number % 7))


def write_random(cluster: Cluster, topic: str, size_bytes: int) -> None:
    with Producer(cluster, idempotent=True, batch_size_bytes=100_000) as producer:
        for _ in range(size_bytes // 1000):
            producer.produce(topic, random.randbytes(1000))


def write_transactions(kafka: ApacheKafka, topic: str, name: str, *, leave_open: bool) -> None:
    """Two producers whose transactions overlap; offsets are committed with them."""
    producers = [transactional(kafka, f"{name}-{number}") for number in range(2)]
    consumer = LibrdkafkaConsumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": name})
    for round_number in range(6):
        for producer in producers:
            producer.begin_transaction()
        for _ in range(3):
            for producer in producers:
                producer.produce(topic, b"value", key=b"%d" % (round_number % 3))
                producer.flush()
        for number, producer in enumerate(producers):
            offsets = [TopicPartition(topic, 0, round_number)]
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
            if (round_number + number) % 2:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
    consumer.close()
    if leave_open:
        producers[0].begin_transaction()
        producers[0].produce(topic, b"open")
        producers[0].flush()
        # The library would abort the transaction when it collects the producer.
        _kept.append(producers[0])


_kept: list[LibrdkafkaProducer] = []


def transactional(kafka: ApacheKafka, name: str) -> LibrdkafkaProducer:
    producer = LibrdkafkaProducer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "transactional.id": name,
            "transaction.timeout.ms": 600_000,
            "log_level": 0,
        }
    )
    producer.init_transactions()
    return producer


def write_compacted(kafka: ApacheKafka, cluster: Cluster) -> None:
    for number in range(3):
        with Producer(cluster, idempotent=True, compression=Compression.LZ4) as producer:
            for key in range(200):
                value = None if key % 10 == number else b"%d" % number
                producer.produce(COMPACTED, value, key=b"%d" % key)
        write_transactions(kafka, COMPACTED, f"compacted-{number}", leave_open=False)
        time.sleep(0.3)
    checkpoint = Path(kafka.data_dir) / "cleaner-offset-checkpoint"
    with Producer(cluster) as producer:
        producer.produce(COMPACTED, b"last", key=b"last")
    wait_until(lambda: checkpoint.exists() and f"\n{COMPACTED} 0 " in checkpoint.read_text())


def write_with_java(kafka: ApacheKafka) -> None:
    """Java's client of this version ends transactions in the second way, with a new epoch each time (KIP-890)."""
    done = run_tool(
        "kafka-producer-perf-test",
        *("--topic", JAVA, "--num-records", "3000", "--record-size", "100", "--throughput", "3000"),
        *("--transactional-id", "java", "--transaction-duration-ms", "50"),
        *("--bootstrap-server", kafka.bootstrap_servers),
    )
    assert done.returncode == 0, done.stderr


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.05)
