"""Consume, transform, produce: programs and broker are killed at random, the output is the input, once each.

ONCELOG_KILLS sets how often each program is killed; a hundred times is a soak test.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka import Producer
from reading import create_topic, read

from conformance.reference.tools import TOOLS, java_command
from oncelog.testing import Broker

KILLS = int(os.environ.get("ONCELOG_KILLS", "5"))
RECORDS_PER_KILL = 60
DEADLINE_S = 60 + 10 * KILLS
COPIER = Path(__file__).with_name("copier.py")

pytestmark = pytest.mark.timeout(DEADLINE_S + 60)


class Source:
    """Numbers, dealt to the partitions in turn."""

    def __init__(self, address: str, topic: str, partitions: int) -> None:
        self._producer = Producer({"bootstrap.servers": address, "reconnect.backoff.max.ms": 100, "log_level": 0})
        self._topic = topic
        self._count = 0
        self._partitions = partitions
        self.values: list[list[str]] = [[] for _ in range(partitions)]

    def add(self, count: int) -> None:
        for number in range(self._count, self._count + count):
            partition = number % self._partitions
            self._producer.produce(self._topic, str(number).encode(), partition=partition)
            self.values[partition].append(str(number))
        self._count += count
        assert self._producer.flush(30) == 0


def copier_command(client: str, address: str, source: str, target: str) -> list[str]:
    """Kafka's own program for Java. Only without a group, and so with one partition, does it start again at once."""
    if client != "java":
        return [sys.executable, "-W", "ignore", str(COPIER), client, address, source, target, "copier"]
    options = {
        "--broker-list": address,
        "--input-topic": source,
        "--input-partition": "0",
        "--output-topic": target,
        "--transactional-id": "copier",
        "--consumer-group": "copiers",
        "--transaction-size": "7",
        "--max-messages": "-1",
    }
    words = [word for option in options.items() for word in option]
    tool = TOOLS["kafka-transactional-message-copier"]
    return java_command(tool, *words, "--use-group-metadata")


@contextmanager
def running(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def check_prefix(seen: list[list[str]], expected: list[list[str]]) -> None:
    for got, wanted in zip(seen, expected, strict=True):
        assert got == wanted[: len(got)], "not once each, in order"


def let_run(process: subprocess.Popen[bytes], seconds: float) -> None:
    """For that long, or until it gives up."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)


@pytest.mark.parametrize(
    ("client", "flush_on_ack"),
    [
        ("confluent", True),
        ("kafka-python", False),
        ("aiokafka", True),
        pytest.param("java", False, marks=(pytest.mark.java, pytest.mark.slow)),
    ],
)
def test_a_copier_that_is_killed_again_and_again_copies_once_each(client: str, flush_on_ack: bool) -> None:
    rng = random.Random(f"{client} {flush_on_ack}")
    starts_after_s, partitions = (3.0, 1) if client == "java" else (0.5, 3)
    with Broker({"log.flush.on.ack": flush_on_ack}, subprocess=True) as broker:
        address = broker.bootstrap_servers
        for topic in ("source", "target"):
            create_topic(address, topic, partitions)
        source = Source(address, "source", partitions)
        command = copier_command(client, address, "source", "target")
        for _ in range(KILLS):
            source.add(RECORDS_PER_KILL)
            with running(command) as process:
                let_run(process, starts_after_s + rng.expovariate(2))
                if rng.random() < 0.5:
                    broker.kill()
                    broker.start()
                    let_run(process, rng.uniform(0, 0.5))
            check_prefix(read(address, "target", partitions), source.values)
        deadline = time.monotonic() + DEADLINE_S
        seen: list[list[str]] = []
        while seen != source.values:
            with running(command) as process:
                while process.poll() is None and seen != source.values:
                    assert time.monotonic() < deadline, f"{seen} is all that was copied"
                    let_run(process, 0.2)
                    seen = read(address, "target", partitions)
        check_prefix(seen, source.values)
