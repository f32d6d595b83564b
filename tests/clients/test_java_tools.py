"""Kafka's own command-line tools, judged by what they print.

All courses of commands run at once, in a few threads and two JVMs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from subprocess import CompletedProcess

import pytest
from payloads import ACKS, CODECS, LARGE_TOPIC, NOW_MS, Sent, stored_codecs, value_of, wait_until
from stock_clients import CLIENTS

from conformance.reference.jars import missing
from conformance.reference.toolbox import Toolbox
from oncelog.testing import Broker

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(240)]

_THREAD_COUNT = 4
_CLIENT = CLIENTS["confluent-kafka"]


class Tools:
    """Runs tools against one broker."""

    def __init__(self, broker: Broker, directory: Path, toolboxes: SimpleQueue[Toolbox]) -> None:
        self._toolboxes = toolboxes
        self.broker = broker
        self.address = broker.bootstrap_servers
        self.directory = directory

    def run(self, tool: str, *args: str, stdin: str | None = None) -> CompletedProcess[str]:
        toolbox = self._toolboxes.get()
        try:
            return toolbox.run(tool, "--bootstrap-server", self.address, *args, stdin=stdin)
        finally:
            self._toolboxes.put(toolbox)

    def __call__(self, tool: str, *args: str, stdin: str | None = None) -> str:
        done = self.run(tool, *args, stdin=stdin)
        assert done.returncode == 0, f"{tool} {args}: {done.stdout}{done.stderr}"
        assert "Exception" not in done.stderr, f"{tool} {args}: {done.stderr}"
        return done.stdout

    def fill(self, topic: str, records: tuple[Sent, ...], configs: dict[str, str] | None = None) -> None:
        _CLIENT.create_topic(self.address, topic, configs or {})
        _CLIENT.produce(self.address, topic, records, codec="none", acks="all")


def console(tools: Tools, codec: str, acks: str) -> None:
    """kafka-console-producer to kafka-console-consumer, with and without a group."""
    topic = f"console-{codec}"
    sizes = (1, 1000, 100_000)
    lines = [f"first:{size},second:\tkey-{size}\t{'abcdefg ' * size}"[: 40 + size] for size in sizes]
    tools(
        "kafka-console-producer",
        f"--topic={topic}",
        f"--compression-codec={codec}",
        f"--request-required-acks={acks}",
        "--reader-property=parse.key=true",
        "--reader-property=parse.headers=true",
        stdin="".join(f"{line}\n" for line in lines),
    )
    # With acks=0 the tool ends before the broker has written what it sent.
    wait_until(lambda: stored_codecs(tools.broker.data_dir, topic) == {codec}, f"{topic} is written with {codec}")
    reading = (
        "kafka-console-consumer",
        f"--topic={topic}",
        "--from-beginning",
        f"--max-messages={len(sizes)}",
        "--timeout-ms=30000",
        *(f"--formatter-property=print.{part}=true" for part in ("headers", "key", "offset", "partition", "timestamp")),
    )
    shown = [f"Partition:0\tOffset:{offset}\t{line}" for offset, line in enumerate(lines)]
    for group in ((), (f"--group=group-of-{codec}",)):
        found = tools(*reading, *group).splitlines()
        assert [re.sub(r"^CreateTime:\d{13}\t", "", line) for line in found] == shown


def console_large(tools: Tools) -> None:
    """10 MB from a stock client to the console's consumer."""
    value = ("0123456789" * 1_000_000).encode()
    tools.fill("console-large", (Sent(b"large", value, (), NOW_MS),), LARGE_TOPIC)
    found = tools(
        "kafka-console-consumer",
        "--topic=console-large",
        "--partition=0",
        "--offset=earliest",
        "--max-messages=1",
        "--timeout-ms=30000",
    )
    assert found.encode() == value + b"\n"


def topics(tools: Tools) -> None:
    created = tools(
        "kafka-topics",
        "--create",
        "--topic=made",
        "--partitions=2",
        "--replication-factor=1",
        "--config=retention.ms=123456",
    )
    assert created.strip() == "Created topic made."
    assert "made" in tools("kafka-topics", "--list").splitlines()
    altered = tools("kafka-topics", "--alter", "--topic=made", "--partitions=3")
    assert altered.strip() == ""
    described = tools("kafka-topics", "--describe", "--topic=made").splitlines()
    assert re.fullmatch(
        r"Topic: made\tTopicId: [\w-]{22}\tPartitionCount: 3\tReplicationFactor: 1\tConfigs: .*retention\.ms=123456.*",
        described[0],
    )
    for partition, line in enumerate(described[1:]):
        assert line.startswith(f"\tTopic: made\tPartition: {partition}\tLeader: 1\tReplicas: 1\tIsr: 1")
    assert len(described) == 4
    assert tools("kafka-topics", "--delete", "--topic=made").strip() == ""
    assert "made" not in tools("kafka-topics", "--list").splitlines()
    again = tools.run("kafka-topics", "--describe", "--topic=made")
    assert again.returncode != 0
    assert "Topic 'made' does not exist as expected" in again.stdout + again.stderr


def topic_configs(tools: Tools) -> None:
    _CLIENT.create_topic(tools.address, "configured", {"retention.bytes": "5"})
    entity = ("--entity-type=topics", "--entity-name=configured")
    change = ("--add-config=cleanup.policy=[compact,delete],segment.ms=7777", "--delete-config=retention.bytes")
    assert (
        tools("kafka-configs", "--alter", *entity, *change).strip() == "Completed updating config for topic configured."
    )
    own = tools("kafka-configs", "--describe", *entity)
    assert "Dynamic configs for topic configured are:" in own
    assert "cleanup.policy=compact,delete sensitive=false" in own
    assert "segment.ms=7777 sensitive=false" in own
    assert "retention.bytes" not in own
    whole = tools("kafka-configs", "--describe", "--all", *entity)
    assert "retention.bytes=-1 sensitive=false synonyms={DEFAULT_CONFIG:log.retention.bytes=-1}" in whole


def broker_configs(tools: Tools) -> None:
    for entity, owner, source in (
        ("--entity-name=1", "broker 1", "DYNAMIC_BROKER_CONFIG"),
        ("--entity-default", "default broker", "DYNAMIC_DEFAULT_BROKER_CONFIG"),
    ):
        where = ("--entity-type=brokers", entity)
        changed = tools("kafka-configs", "--alter", *where, "--add-config=log.cleaner.backoff.ms=12345")
        assert re.fullmatch(r"Completed updating (default )?config for (broker|brokers).*", changed.strip()), changed
        described = tools("kafka-configs", "--describe", *where)
        assert "log.cleaner.backoff.ms=12345 sensitive=false" in described, owner
        assert f"{source}:log.cleaner.backoff.ms=12345" in described, owner


def client_quotas(tools: Tools) -> None:
    entity = ("--entity-type=clients", "--entity-name=tester")
    rates = "producer_byte_rate=1048576,consumer_byte_rate=2097152"
    changed = tools("kafka-configs", "--alter", *entity, f"--add-config={rates}")
    assert changed.strip() == "Completed updating config for client tester."
    described = tools("kafka-configs", "--describe", *entity)
    assert "Quota configs for client-id 'tester' are" in described
    assert "producer_byte_rate=1048576.0" in described
    assert "consumer_byte_rate=2097152.0" in described
    tools("kafka-configs", "--alter", *entity, "--delete-config=producer_byte_rate")
    assert "producer_byte_rate" not in tools("kafka-configs", "--describe", *entity)


def acls(tools: Tools) -> None:
    refused = tools.run("kafka-acls", "--list")
    assert refused.returncode == 1
    assert "SecurityDisabledException: No Authorizer is configured on the broker" in refused.stdout


def quorum(tools: Tools) -> None:
    status = tools("kafka-metadata-quorum", "describe", "--status")
    told = dict(re.split(r":\s+", line, maxsplit=1) for line in status.strip().splitlines())
    assert (told["LeaderId"], told["MaxFollowerLag"]) == ("1", "0")
    assert json.loads(told["CurrentVoters"]) == [{"id": 1, "endpoints": [f"PLAINTEXT://{tools.address}"]}]
    assert int(told["HighWatermark"]) > 0
    _, replica = tools("kafka-metadata-quorum", "describe", "--replication").strip().splitlines()
    assert (replica.split()[0], replica.split()[-1]) == ("1", "Leader")


def scram_users(tools: Tools) -> None:
    entity = ("--entity-type=users", "--entity-name=alice")
    for mechanism, iterations in (("SCRAM-SHA-256", 8192), ("SCRAM-SHA-512", 4096)):
        added = f"--add-config={mechanism}=[iterations={iterations},password=secret]"
        assert tools("kafka-configs", "--alter", *entity, added).strip() == "Completed updating config for user alice."
    both = tools("kafka-configs", "--describe", *entity)
    assert "SCRAM-SHA-256=iterations=8192" in both
    assert "SCRAM-SHA-512=iterations=4096" in both
    tools("kafka-configs", "--alter", *entity, "--delete-config=SCRAM-SHA-256")
    left = tools("kafka-configs", "--describe", "--entity-type=users").strip()
    assert left == "SCRAM credential configs for user-principal 'alice' are SCRAM-SHA-512=iterations=4096"


def client_metrics(tools: Tools) -> None:
    entity = ("--entity-type=client-metrics", "--entity-name=slow")
    settings = {"interval.ms": "5000", "match": "client_id=a.*", "metrics": "org.apache.kafka.producer."}
    added = ",".join(f"{key}=[{value}]" for key, value in settings.items())
    altered = tools("kafka-configs", "--alter", *entity, f"--add-config={added}").strip()
    assert altered == "Completed updating config for client-metric slow."
    described = tools("kafka-configs", "--describe", "--entity-type=client-metrics")
    assert described.startswith("Dynamic configs for client-metric slow are:\n")
    for key, value in settings.items():
        assert f"synonyms={{DYNAMIC_CLIENT_METRICS_CONFIG:{key}={value}}}" in described
    refused = tools.run("kafka-configs", "--alter", *entity, "--add-config=interval.ms=99")
    assert "interval must be between 100 and 3600000 (1 hour)" in refused.stdout + refused.stderr
    tools("kafka-configs", "--alter", *entity, f"--delete-config={','.join(settings)}")
    assert tools("kafka-configs", "--describe", "--entity-type=client-metrics").strip() == ""


def groups_that_are_off(tools: Tools) -> None:
    """Of share groups and streams groups there are none, and what needs one is refused with the reason."""
    assert tools("kafka-share-groups", "--list").strip() == ""
    assert tools("kafka-streams-groups", "--list").strip() == ""
    for tool, kind in (("kafka-share-groups", "share"), ("kafka-streams-groups", "streams")):
        done = tools.run(tool, "--describe", "--group=g")
        told = "UnsupportedVersionException: The version of API is not supported: this broker has no"
        assert f"{told} {kind} groups" in done.stdout + done.stderr


def reassignments(tools: Tools) -> None:
    _CLIENT.create_topic(tools.address, "moved", {})
    plan = tools.directory / "reassignment.json"
    wanted = {"version": 1, "partitions": [{"topic": "moved", "partition": 0, "replicas": [1]}]}
    plan.write_text(json.dumps(wanted))
    file = f"--reassignment-json-file={plan}"
    executed = tools("kafka-reassign-partitions", "--execute", file)
    assert "Successfully started partition reassignment for moved-0" in executed
    assert "Reassignment of partition moved-0 is completed." in tools("kafka-reassign-partitions", "--verify", file)
    assert "are active" in tools("kafka-reassign-partitions", "--cancel", file)
    assert tools("kafka-reassign-partitions", "--list").strip() == "No partition reassignments found."


def offsets(tools: Tools) -> None:
    """Without tiered storage, so that the local earliest offset is the earliest and none is tiered."""
    records = tuple(Sent(None, b"v", (), NOW_MS + later_ms) for later_ms in (1000, 3000, 2000))
    tools.fill("offsets", records)
    for time_ms, expected in (
        ("-1", "offsets:0:3"),
        ("-2", "offsets:0:0"),
        ("-3", "offsets:0:1"),
        ("-4", "offsets:0:0"),
        ("-5", ""),
        ("latest", "offsets:0:3"),
        (str(NOW_MS + 1500), "offsets:0:1"),
    ):
        assert tools("kafka-get-offsets", "--topic=offsets", f"--time={time_ms}").strip() == expected, time_ms


def log_dirs(tools: Tools) -> None:
    tools.fill("on-disk", (Sent(b"key", value_of(50_000), (), NOW_MS),))
    answer = tools("kafka-log-dirs", "--describe", "--topic-list=on-disk").splitlines()
    told = json.loads(next(line for line in answer if line.startswith("{")))
    (found,) = told["brokers"]
    assert found["broker"] == 1
    (directory,) = found["logDirs"]
    assert directory["error"] is None
    assert directory["logDir"] == str(tools.broker.data_dir)
    (partition,) = directory["partitions"]
    size_bytes = (tools.broker.data_dir / "on-disk-0" / f"{0:020}.log").stat().st_size
    assert partition == {"partition": "on-disk-0", "size": size_bytes, "offsetLag": 0, "isFuture": False}


def delete_records(tools: Tools) -> None:
    """The records cannot be read any more, and the segments that held only such records leave the log."""
    records = tuple(Sent(b"%d" % index, value_of(400_000), (), NOW_MS + index) for index in range(8))
    _CLIENT.create_topic(tools.address, "shrinking", {"segment.bytes": "1048576"})
    for record in records:
        _produce_one(tools, "shrinking", record)
    directory = tools.broker.data_dir / "shrinking-0"
    assert len(list(directory.glob("*.log"))) > 2
    plan = tools.directory / "offsets.json"
    wanted = {"partitions": [{"topic": "shrinking", "partition": 0, "offset": 5}], "version": 1}
    plan.write_text(json.dumps(wanted))
    told = tools("kafka-delete-records", f"--offset-json-file={plan}")
    assert "partition: shrinking-0\tlow_watermark: 5" in told
    assert tools("kafka-get-offsets", "--topic=shrinking", "--time=earliest").strip() == "shrinking:0:5"
    assert tools(
        "kafka-console-consumer",
        "--topic=shrinking",
        "--from-beginning",
        "--max-messages=3",
        "--timeout-ms=30000",
        "--formatter-property=print.key=true",
        "--formatter-property=print.value=false",
    ).split() == ["5", "6", "7"]
    wait_until(lambda: len(list(directory.glob("*.log"))) == 2, "the segments before offset 4 are set aside")


def _produce_one(tools: Tools, topic: str, record: Sent) -> None:
    import confluent_kafka

    producer = confluent_kafka.Producer({"bootstrap.servers": tools.address, "log_level": 0})
    producer.produce(topic, value=record.value, key=record.key, partition=0, timestamp=record.timestamp_ms)
    assert producer.flush(30) == 0


_ACKS_OF = {codec: ACKS[index % len(ACKS)] for index, codec in enumerate(CODECS)}

COURSES: dict[str, Callable[[Tools], None]] = {
    **{
        f"console {codec}": lambda tools, codec=codec, acks=acks: console(tools, codec, acks)  # type: ignore[misc]
        for codec, acks in _ACKS_OF.items()
    },
    "console 10 MB": console_large,
    "topics": topics,
    "topic configs": topic_configs,
    "broker configs": broker_configs,
    "client quotas": client_quotas,
    "acls": acls,
    "quorum": quorum,
    "SCRAM users": scram_users,
    "client metrics": client_metrics,
    "groups that are off": groups_that_are_off,
    "reassignments": reassignments,
    "get-offsets": offsets,
    "log-dirs": log_dirs,
    "delete-records": delete_records,
}


@pytest.fixture(scope="module")
def courses(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[None]]]:
    """All courses, under way."""
    if (reason := missing()) is not None:
        pytest.skip(reason)
    toolboxes: SimpleQueue[Toolbox] = SimpleQueue()
    tools = Tools(broker, tmp_path_factory.mktemp("tools"), toolboxes)
    with Toolbox() as one, Toolbox() as two, ThreadPoolExecutor(_THREAD_COUNT) as pool:
        toolboxes.put(one)
        toolboxes.put(two)
        yield {name: pool.submit(course, tools) for name, course in COURSES.items()}


@pytest.mark.parametrize("name", COURSES)
def test_tool(courses: dict[str, Future[None]], name: str) -> None:
    courses[name].result()
