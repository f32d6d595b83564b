"""A program that copies one topic to another, exactly once: consume, produce and commit offsets in transactions.

    python copier.py CLIENT ADDRESS SOURCE TARGET NAME

It runs until it is killed. NAME is its transactional id, and makes it a static member of its group, so that the
next one with that name takes its place at once. When its producer is fenced or cannot go on, it starts over.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

BATCH_MAX = 7
GROUP = "copiers"
SESSION_TIMEOUT_MS = 6000
METADATA_TIMEOUT_S = 60.0


def run_confluent(address: str, source: str, target: str, name: str) -> None:
    from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": GROUP,
            "group.instance.id": name,
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 20,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
    )
    producer = Producer(
        {
            "bootstrap.servers": address,
            "transactional.id": name,
            "reconnect.backoff.max.ms": 200,
            "linger.ms": 0,
            "log_level": 0,
        }
    )
    producer.init_transactions(30)
    consumer.subscribe([source])
    while True:
        messages = [message for message in consumer.consume(BATCH_MAX, 0.2) if not message.error()]
        if not messages:
            continue
        try:
            producer.begin_transaction()
            for message in messages:
                producer.produce(target, message.value(), partition=message.partition())
            positions = {message.partition(): message.offset() + 1 for message in messages}
            offsets = [TopicPartition(source, partition, offset) for partition, offset in positions.items()]
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 30)
            producer.commit_transaction(30)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            producer.abort_transaction(30)
            _rewind(consumer, messages)


def _rewind(consumer: Any, messages: list[Any]) -> None:
    from confluent_kafka import KafkaException, TopicPartition

    for message in reversed(messages):
        try:
            consumer.seek(TopicPartition(message.topic(), message.partition(), message.offset()))
        except KafkaException:
            # The partition was taken away meanwhile; whoever has it starts from the committed offset.
            return


def run_kafka_python(address: str, source: str, target: str, name: str) -> None:
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.structs import OffsetAndMetadata

    consumer = KafkaConsumer(
        source,
        bootstrap_servers=address,
        group_id=GROUP,
        group_instance_id=name,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        heartbeat_interval_ms=1000,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
        fetch_max_wait_ms=20,
    )
    await_partitions(consumer, source, METADATA_TIMEOUT_S)
    producer = KafkaProducer(bootstrap_servers=address, transactional_id=name)
    producer.init_transactions()
    while True:
        polled = consumer.poll(timeout_ms=200, max_records=BATCH_MAX)
        if not polled:
            continue
        producer.begin_transaction()
        offsets = {}
        sent = []
        for partition, messages in polled.items():
            sent += [producer.send(target, message.value, partition=message.partition) for message in messages]
            offsets[partition] = OffsetAndMetadata(messages[-1].offset + 1, "", -1)
        producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        producer.commit_transaction()
        # A commit of what the broker has aborted meanwhile raises nothing; the records know.
        for each in sent:
            each.get()


def await_partitions(consumer: Any, topic: str, timeout_s: float) -> None:
    """Until a KafkaConsumer knows them: one that joins before may end in a join which it forgets (docs/clients.md)."""
    deadline = time.monotonic() + timeout_s
    # Each call asks the broker and waits for its answer, which may be that there is no such topic yet.
    while not consumer.partitions_for_topic(topic):
        if time.monotonic() > deadline:
            raise TimeoutError(f"the broker has told of no topic {topic} within {timeout_s:g} s")
        time.sleep(0.02)


async def run_aiokafka(address: str, source: str, target: str, name: str) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    consumer = AIOKafkaConsumer(
        source,
        bootstrap_servers=address,
        group_id=GROUP,
        group_instance_id=name,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
        fetch_max_wait_ms=20,
    )
    producer = AIOKafkaProducer(bootstrap_servers=address, transactional_id=name)
    await producer.start()
    await consumer.start()
    while True:
        polled = await consumer.getmany(timeout_ms=200, max_records=BATCH_MAX)
        if not polled:
            continue
        async with producer.transaction():
            for messages in polled.values():
                for message in messages:
                    await producer.send(target, message.value, partition=message.partition)
            offsets = {partition: messages[-1].offset + 1 for partition, messages in polled.items()}
            await producer.send_offsets_to_transaction(offsets, GROUP)


def main(client: str, *arguments: str) -> None:
    if client == "confluent":
        run_confluent(*arguments)
    elif client == "kafka-python":
        run_kafka_python(*arguments)
    else:
        asyncio.run(run_aiokafka(*arguments))


if __name__ == "__main__":
    main(*sys.argv[1:])
