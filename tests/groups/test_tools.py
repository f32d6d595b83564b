"""kafka-consumer-groups: the same commands give the same output on Apache Kafka and here."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from consumer_members import ConsumerProtocolMember
from members import Admin, ConfluentMember, until

from conformance.reference.jars import missing
from conformance.reference.kafka import ApacheKafka
from conformance.reference.toolbox import Toolbox
from oncelog.testing import Broker

pytestmark = [pytest.mark.java, pytest.mark.slow]

RESETS = (
    ("--to-earliest",),
    ("--to-latest",),
    ("--to-offset", "3"),
    ("--shift-by", "-2"),
    ("--to-datetime", "2000-01-01T00:00:00.000"),
    ("--by-duration", "PT0S"),
    ("--to-current",),
)


@pytest.mark.timeout(300)
@pytest.mark.skipif(missing() is not None, reason="Java or Maven is missing")
def test_tool_says_the_same_of_both_brokers(tmp_path: Path) -> None:
    with ApacheKafka() as kafka, Broker() as broker, ThreadPoolExecutor() as pool:
        theirs = pool.submit(observe, kafka.bootstrap_servers, tmp_path)
        ours = pool.submit(observe, broker.bootstrap_servers, tmp_path)
        for expected, got in zip(theirs.result(), ours.result(), strict=True):
            assert got == expected


def observe(address: str, tmp_path: Path) -> list[tuple[str, list[str]]]:
    with Toolbox() as tools:
        return observe_with(tools, address, tmp_path)


def observe_with(tools: Toolbox, address: str, tmp_path: Path) -> list[tuple[str, list[str]]]:
    """Each command with the lines that it prints."""
    exported = tmp_path / f"{address.replace(':', '-')}.csv"
    outputs: list[tuple[str, list[str]]] = []

    def groups(*options: str) -> None:
        done = tools.run("kafka-consumer-groups", "--bootstrap-server", address, *options)
        outputs.append(
            (
                " ".join(options).replace(admin.topic, "TOPIC").replace(str(exported), "FILE"),
                _lines(done.stdout + done.stderr, admin.topic),
            )
        )

    admin = _Scenario(address)
    member = ConfluentMember(address, "g", admin.topic, client_id="me")
    # librdkafka 2.16 crashes if it lists offsets while a coordinator is still on its way.
    until(lambda: len(member.received) == 10)
    until(lambda: admin.committed("g") == {0: 5, 1: 5})
    newer = ConsumerProtocolMember(address, "n", admin.topic, client_id="new")
    until(lambda: len(newer.received) == 10)
    until(lambda: admin.committed("n") == {0: 5, 1: 5})
    groups("--list")
    groups("--list", "--state", "--type")
    groups("--list", "--state", "Stable,Empty")
    groups("--list", "--type", "consumer")
    for kind in ("--members", "--state", "--offsets"):
        groups("--describe", "--all-groups", kind, "--verbose")
        groups("--describe", "--group", "nobody", kind)
    groups("--delete", "--group", "nobody")
    groups("--delete-offsets", "--group", "nobody", "--topic", admin.topic)
    groups("--validate-regex", "a.*")
    groups("--validate-regex", "a(")
    groups("--describe", "--group", "g")
    groups("--describe", "--group", "g", "--members", "--verbose")
    groups("--describe", "--group", "g", "--state")
    groups("--delete", "--group", "g")
    groups("--reset-offsets", "--group", "g", "--all-topics", "--to-earliest", "--dry-run")
    groups("--delete-offsets", "--group", "g", "--topic", admin.topic)
    member.stop()
    newer.stop()
    groups("--describe", "--group", "g")
    for reset in RESETS:
        groups("--reset-offsets", "--group", "g", "--topic", admin.topic, *reset, "--dry-run")
    groups("--reset-offsets", "--group", "g", "--topic", f"{admin.topic}:1", "--to-offset", "2", "--execute")
    groups("--describe", "--all-groups", "--offsets")
    groups("--reset-offsets", "--group", "g", "--all-topics", "--shift-by", "1", "--export")
    exported.write_text(f'"{admin.topic}",0,1\n"{admin.topic}",1,4\n')
    groups("--reset-offsets", "--group", "g", "--from-file", str(exported), "--execute")
    groups("--reset-offsets", "--all-groups", "--topic", f"{admin.topic}:7", "--to-earliest", "--execute")
    groups("--delete-offsets", "--group", "g", "--topic", f"{admin.topic}:0")
    groups("--describe", "--group", "g", "--offsets")
    groups("--reset-offsets", "--all-groups", "--all-topics", "--shift-by", "1", "--execute")
    groups("--reset-offsets", "--group", "new", "--topic", admin.topic, "--to-offset", "99", "--execute")
    groups("--reset-offsets", "--group", "g", "--topic", "nowhere", "--to-earliest", "--execute")
    groups("--delete-offsets", "--group", "g", "--topic", "nowhere")
    groups("--delete", "--group", "g", "--group", "nobody")
    groups("--list")
    groups("--describe", "--group", "g")
    groups("--delete", "--all-groups")
    groups("--list")
    return outputs


class _Scenario(Admin):
    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.topic = self.new_topic(2)
        self.produce(self.topic, 10, 2)


def _lines(text: str, topic: str) -> list[str]:
    """Without what may differ: ids, ports, the order of partitions, the width of columns, the words of refusals."""
    text = text.replace(topic, "TOPIC")
    text = re.sub(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "UUID", text)
    text = re.sub(r"(?<=Valid states are: ).*", lambda states: ", ".join(sorted(states[0].split(", "))), text)
    text = re.sub(r"(?<= )[\w+/-]{22}(?= +/127)", "ID", text)
    text = re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", text)
    text = re.sub(r"(errors\.\w+Exception): .*", r"\1", text)
    return sorted(" ".join(line.split()) for line in text.splitlines() if line.strip())
