from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from conformance.reference.tools import run_tool

if TYPE_CHECKING:
    from conformance.reference.kafka import ApacheKafka

pytestmark = pytest.mark.java


def test_topic_produce_consume_and_dump_log(apache_kafka: ApacheKafka) -> None:
    topic = f"reference-{uuid.uuid4().hex}"
    created = run_tool(
        *("kafka-topics", "--bootstrap-server", apache_kafka.bootstrap_servers),
        *("--create", "--topic", topic, "--partitions", "1"),
    )
    assert created.returncode == 0, created.stderr

    producer = Producer({"bootstrap.servers": apache_kafka.bootstrap_servers, "linger.ms": 0})
    producer.produce(topic, key=b"k", value=b"the value", headers=[("h", b"1")])
    assert producer.flush(30) == 0

    message = _first_message(apache_kafka.bootstrap_servers, topic)
    assert (message.key(), message.value(), message.headers()) == (b"k", b"the value", [("h", b"1")])

    segment = apache_kafka.data_dir / f"{topic}-0" / "00000000000000000000.log"
    dumped = run_tool("kafka-dump-log", "--files", str(segment), "--print-data-log")
    assert "payload: the value" in dumped.stdout


def test_acked_record_survives_a_kill(apache_kafka: ApacheKafka) -> None:
    topic = f"reference-{uuid.uuid4().hex}"
    producer = Producer({"bootstrap.servers": apache_kafka.bootstrap_servers, "linger.ms": 0})
    producer.produce(topic, b"acked")
    assert producer.flush(30) == 0
    pid_before = apache_kafka.pid

    apache_kafka.kill()
    apache_kafka.start()

    assert apache_kafka.pid != pid_before
    assert _first_message(apache_kafka.bootstrap_servers, topic).value() == b"acked"


def test_a_tool_reads_its_stdin(apache_kafka: ApacheKafka) -> None:
    topic = f"reference-{uuid.uuid4().hex}"
    produced = run_tool(
        *("kafka-console-producer", "--bootstrap-server", apache_kafka.bootstrap_servers),
        *("--topic", topic),
        stdin="one\ntwo\n",
    )
    assert produced.returncode == 0, produced.stderr

    offsets = run_tool("kafka-get-offsets", "--bootstrap-server", apache_kafka.bootstrap_servers, "--topic", topic)
    assert offsets.stdout == f"{topic}:0:2\n"


def _first_message(bootstrap_servers: str, topic: str) -> Message:
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "unused"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        return message
    finally:
        consumer.close()
