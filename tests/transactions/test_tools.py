"""Kafka's own tools around transactions, unchanged, against the broker."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from direct_batches import open_hanging_transaction
from producers import ConfluentProducer, Fenced
from reading import committed_offset, create_topic, read, stable_end

from conformance.reference.tools import run_tool
from oncelog.pipeline.evidence import aborted_offsets
from oncelog.testing import Broker

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

Unique = Callable[[str], str]

OFFSETS = "__consumer_offsets"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """One that lets transactions hang, as brokers before KIP-890 do."""
    with Broker({"transaction.partition.verification.enable": False}) as broker:
        yield broker


def run(tool: str, *arguments: str) -> str:
    """To its end, without a word of complaint."""
    done = run_tool(tool, *arguments, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not [line for line in done.stderr.splitlines() if " ERROR " in line or "Exception" in line], done.stderr
    return done.stdout


def rows(broker: Broker, *arguments: str) -> list[dict[str, str]]:
    """The table that kafka-transactions prints."""
    printed = run("kafka-transactions", "--bootstrap-server", broker.bootstrap_servers, *arguments)
    lines = [[word.strip() for word in line.split("\t")] for line in printed.splitlines() if line.strip()]
    return [dict(zip(lines[0], line, strict=False)) for line in lines[1:]]


def test_kafka_transactions_sees_and_ends_transactions(broker: Broker, topic: str, unique: Unique) -> None:
    address, transactional_id = broker.bootstrap_servers, unique("open")
    producer = ConfluentProducer(address, transactional_id, 60_000)
    producer.begin()
    producer.send(topic, 0, "x")
    producer.flush()
    (listed,) = rows(broker, "list", "--transactional-id-pattern", transactional_id)
    assert (listed["TransactionalId"], listed["TransactionState"]) == (transactional_id, "Ongoing")
    (described,) = rows(broker, "describe", "--transactional-id", transactional_id)
    assert described["TopicPartitions"] == f"{topic}-0"
    assert described["TransactionTimeoutMs"] == "60000"
    (active,) = rows(broker, "describe-producers", "--topic", topic, "--partition", "0")
    assert (active["ProducerId"], active["CurrentTransactionStartOffset"]) == (listed["ProducerId"], "0")
    rows(broker, "forceTerminateTransaction", "--transactionalId", transactional_id)
    assert stable_end(address, topic, 0) == 2
    with pytest.raises(Fenced):
        producer.commit()
    producer.close()


def test_kafka_transactions_finds_and_aborts_one_that_hangs(broker: Broker, topic: str) -> None:
    address = broker.bootstrap_servers
    producer_id = open_hanging_transaction(address, topic, 1, age_ms=2 * 3_600_000)
    assert stable_end(address, topic, 1) == 0
    hanging = rows(broker, "find-hanging", "--topic", topic)
    assert [(row["ProducerId"], row["StartOffset"]) for row in hanging] == [(str(producer_id), "0")]
    rows(broker, "abort", "--topic", topic, "--partition", "1", "--start-offset", "0")
    assert stable_end(address, topic, 1) == 2
    assert read(address, topic) == [[], [], []]


def test_producer_performance_with_transactions(broker: Broker, topic: str, unique: Unique) -> None:
    printed = run(
        "kafka-producer-perf-test",
        *("--topic", topic, "--num-records", "500", "--record-size", "50", "--throughput", "-1"),
        *("--transactional-id", unique("perf"), "--transaction-duration-ms", "50"),
        *("--producer-props", f"bootstrap.servers={broker.bootstrap_servers}"),
    )
    assert "500 records sent" in printed
    assert sum(len(values) for values in read(broker.bootstrap_servers, topic)) == 500


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_verifiable_producer_and_consumer(broker: Broker, unique: Unique, protocol: str) -> None:
    address, topic = broker.bootstrap_servers, unique("verifiable")
    create_topic(address, topic, 1)
    produced = run("kafka-verifiable-producer", "--bootstrap-server", address, "--topic", topic, "--max-messages", "50")
    final = json.loads(produced.splitlines()[-1])
    assert (final["name"], final["sent"], final["acked"]) == ("tool_data", 50, 50)
    consumed = run(
        "kafka-verifiable-consumer",
        *("--bootstrap-server", address, "--topic", topic, "--group-id", unique("group")),
        *("--max-messages", "50", "--reset-policy", "earliest", "--verbose"),
        *("--group-protocol", protocol),
    )
    events = [json.loads(line) for line in consumed.splitlines()]
    assert [event["value"] for event in events if event["name"] == "record_data"] == [str(n) for n in range(50)]


@pytest.mark.parametrize("by_group", [True, False], ids=["group metadata", "group id"])
def test_transactional_message_copier_with_random_aborts(broker: Broker, unique: Unique, by_group: bool) -> None:
    address, source, target, group = broker.bootstrap_servers, unique("source"), unique("target"), unique("copiers")
    for topic in (source, target):
        create_topic(address, topic, 1)
    run("kafka-verifiable-producer", "--bootstrap-server", address, "--topic", source, "--max-messages", "200")
    assert committed_offset(address, group, source, 0) is None
    aborted_before = aborted_offsets(address, OFFSETS)
    printed = run(
        "kafka-transactional-message-copier",
        *("--broker-list", address, "--input-topic", source, "--input-partition", "0", "--output-topic", target),
        *("--transactional-id", unique("copier"), "--consumer-group", group),
        *("--transaction-size", "7", "--max-messages", "200", "--enable-random-aborts"),
        *(["--use-group-metadata"] if by_group else []),
    )
    last = json.loads(printed.splitlines()[-1])
    assert (last["consumed"], last["remaining"]) == (200, 0)
    assert read(address, target, 1) == [[str(number) for number in range(200)]]
    # An abort drops records that were not sent yet, but the offsets of its transaction are in the log by then.
    assert aborted_offsets(address, OFFSETS) > aborted_before, "nothing was aborted"
