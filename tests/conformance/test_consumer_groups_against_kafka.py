"""The same heartbeats to Apache Kafka and to Oncelog: the same answers, the same assignments, the same records."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from itertools import groupby, zip_longest
from pathlib import Path
from typing import Any, Self

import pytest

from conformance.reference.kafka import ApacheKafka
from conformance.reference.tools import run_tool
from oncelog.client.addresses import parse_address
from oncelog.client.connection import Connection
from oncelog.protocol.codec import encode
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from oncelog.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from oncelog.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from oncelog.protocol.messages.consumer_protocol import TopicPartition as ProtocolPartition
from oncelog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from oncelog.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from oncelog.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from oncelog.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from oncelog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from oncelog.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from oncelog.testing import Broker

pytestmark = pytest.mark.java

TOPICS = {"conformance-t": 5, "conformance-u": 3}
T, U = TOPICS
INTERVAL = "group.consumer.assignment.interval.ms"
RETRIABLE = (14, 15, 16)

Step = dict[str, Any]


@pytest.fixture(scope="module")
def kafka(java: None) -> Iterator[ApacheKafka]:
    with ApacheKafka({INTERVAL: "0"}) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def oncelog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker({INTERVAL: 0}, data_dir=tmp_path_factory.mktemp("oncelog")) as broker:
        yield broker


class Driver:
    """Members with fixed ids on one broker. Whatever differs between brokers by nature is taken out."""

    def __init__(self, bootstrap_servers: str, group_id: str) -> None:
        self._connection = Connection(parse_address(bootstrap_servers))
        self._group_id = group_id
        self.epochs: dict[str, int] = {}
        self.owned: dict[str, dict[str, list[int]]] = {}
        self.classic_id = ""

    def __enter__(self) -> Self:
        self._ids = self._create_topics()
        self._names = {topic_id: name for name, topic_id in self._ids.items()}
        self._wait_for_coordinator()
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def send(self, member_id: str, epoch: int | None = None, **fields: Any) -> Step:
        """One heartbeat, at the member's epoch unless told otherwise, with what it owns."""
        epoch = self.epochs.get(member_id, 0) if epoch is None else epoch
        owned = self.owned.get(member_id, {}) if epoch > 0 else {}
        fields.setdefault("topic_partitions", self._listed(owned) if epoch >= 0 else None)
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group_id, member_id=member_id, member_epoch=epoch, **fields
        )
        reply = self._connection.send(request, ConsumerGroupHeartbeatResponse)
        if reply.error_code:
            return {"error": reply.error_code}
        self.epochs[member_id] = reply.member_epoch
        step = {"epoch": reply.member_epoch, "interval": reply.heartbeat_interval_ms, "assignment": None}
        if reply.assignment is not None:
            self.owned[member_id] = step["assignment"] = self._named(reply.assignment.topic_partitions)
        return step

    def join(self, member_id: str, *topics: str, **fields: Any) -> Step:
        return self.send(member_id, 0, rebalance_timeout_ms=30_000, subscribed_topic_names=list(topics), **fields)

    def settle(self, *member_ids: str) -> list[Step]:
        return [self.send(member_id) for _ in range(4) for member_id in member_ids]

    def classic_join(self, member_id: str, *owned: int) -> Step:
        """Its metadata is that of a consumer that is subscribed to the first topic."""
        partitions = [ProtocolPartition(topic=T, partitions=list(owned))] if owned else []
        subscription = ConsumerProtocolSubscription(topics=[T], owned_partitions=partitions)
        request = JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\0\1" + encode(subscription, 1))],
        )
        reply = self._connection.send(request, JoinGroupResponse)
        if reply.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.classic_id = reply.member_id
        return {
            "error": reply.error_code,
            "generation": reply.generation_id,
            "protocol": reply.protocol_name or None,
            "leads": reply.leader == reply.member_id,
            "members": len(reply.members),
        }

    def classic_sync(self, generation: int, *assigned: int) -> Step:
        request = SyncGroupRequest(
            group_id=self._group_id,
            generation_id=generation,
            member_id=self.classic_id,
            protocol_type="consumer",
            protocol_name="range",
        )
        if assigned:
            listed = [ProtocolPartition(topic=T, partitions=list(assigned))]
            data = b"\0\1" + encode(ConsumerProtocolAssignment(assigned_partitions=listed), 1)
            request.assignments = [SyncGroupRequestAssignment(member_id=self.classic_id, assignment=data)]
        reply = self._connection.send(request, SyncGroupResponse)
        return {"error": reply.error_code, "assignment": reply.assignment.hex()}

    def classic_heartbeat(self, generation: int) -> int:
        request = HeartbeatRequest(group_id=self._group_id, generation_id=generation, member_id=self.classic_id)
        return self._connection.send(request, HeartbeatResponse).error_code

    def describe(self) -> Step:
        request = ConsumerGroupDescribeRequest(group_ids=[self._group_id])
        (group,) = self._connection.send(request, ConsumerGroupDescribeResponse).groups
        members = {
            member.member_id.replace(self.classic_id, "classic") if self.classic_id else member.member_id: {
                "epoch": member.member_epoch,
                "type": member.member_type,
                "topics": sorted(member.subscribed_topic_names),
                "regex": member.subscribed_topic_regex,
                "instance": member.instance_id,
                "rack": member.rack_id,
                "assignment": self._named(member.assignment.topic_partitions),
                "target": self._named(member.target_assignment.topic_partitions),
            }
            for member in group.members
        }
        return {
            "error": group.error_code,
            "state": group.group_state,
            "epochs": [group.group_epoch, group.assignment_epoch],
            "assignor": group.assignor_name,
            "members": members,
        }

    def normal(self, text: str) -> str:
        """A text of a tool without ids of topics."""
        from base64 import urlsafe_b64encode

        for name, topic_id in self._ids.items():
            text = text.replace(urlsafe_b64encode(topic_id).rstrip(b"=").decode(), name)
        return text.replace(self.classic_id, "classic") if self.classic_id else text

    def _named(self, listed: list[Any]) -> dict[str, list[int]]:
        return {self._names[topic.topic_id]: sorted(topic.partitions) for topic in listed}

    def _listed(self, owned: dict[str, list[int]]) -> list[TopicPartitions]:
        return [TopicPartitions(topic_id=self._ids[name], partitions=parts) for name, parts in owned.items()]

    def _create_topics(self) -> dict[str, bytes]:
        topics = [CreatableTopic(name=name, num_partitions=n, replication_factor=1) for name, n in TOPICS.items()]
        request = CreateTopicsRequest(topics=topics, timeout_ms=10_000)
        self._connection.send(request, CreateTopicsResponse)
        wanted = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in TOPICS])
        deadline = time.monotonic() + 30
        while True:
            metadata = self._connection.send(wanted, MetadataResponse)
            if not any(topic.error_code for topic in metadata.topics):
                return {topic.name: topic.topic_id for topic in metadata.topics}
            assert time.monotonic() < deadline, "the topics did not come up"
            time.sleep(0.05)

    def _wait_for_coordinator(self) -> None:
        """The topic of offsets may have to be made first."""
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            request = FindCoordinatorRequest(key_type=0, coordinator_keys=[self._group_id])
            self._connection.send(request, FindCoordinatorResponse)
            if self.send("nobody", 5)["error"] not in RETRIABLE:
                return
            time.sleep(0.05)
        raise AssertionError("the coordinator did not come up")


def uniform_life(driver: Driver) -> list[Any]:
    """A homogeneous group grows, has static members, becomes heterogeneous, and shrinks."""
    steps: list[Any] = [driver.join("a", T), driver.join("b", T)]
    steps += [driver.send("a", topic_partitions=driver._listed({T: [0, 1, 2, 3, 4]})), driver.describe()]
    steps += [driver.send("b"), driver.send("a"), driver.send("b"), driver.describe()]
    steps += [
        driver.join("c", T, instance_id="i", rack_id="r"),
        driver.settle("a", "b"),
        driver.send("c", instance_id="i"),
    ]
    steps += [driver.join("d", T, instance_id="i"), driver.send("c", -2, instance_id="i"), driver.describe()]
    steps += [driver.join("d", T, instance_id="i"), driver.send("c", instance_id="i"), driver.describe()]
    steps += [
        driver.send("a", subscribed_topic_names=[T, U]),
        driver.settle("a", "b"),
        driver.send("d", instance_id="i"),
    ]
    steps += [driver.settle("a", "b"), driver.describe()]
    steps += [driver.send("a", subscribed_topic_names=[U]), driver.settle("a", "b"), driver.send("d", instance_id="i")]
    steps += [driver.settle("a", "b"), driver.describe()]
    steps += [driver.send("b", -1), driver.settle("a"), driver.send("d", instance_id="i"), driver.describe()]
    steps += [driver.send("d", -1, instance_id="i"), driver.send("a", -1), driver.describe()]
    return steps


def range_life(driver: Driver) -> list[Any]:
    steps: list[Any] = [driver.join(name, T, U, server_assignor="range") for name in ("x", "y", "z")]
    steps += [driver.settle("x", "y", "z"), driver.describe()]
    steps += [driver.send("y", -1), driver.settle("x", "z"), driver.describe()]
    return steps


def mixed_life(driver: Driver) -> list[Any]:
    """A classic group is upgraded by a member of the new protocol, and downgraded when that leaves."""
    steps: list[Any] = [driver.classic_join(""), driver.classic_join(driver.classic_id)]
    steps += [driver.classic_sync(1, 0, 1, 2, 3, 4), driver.classic_heartbeat(1)]
    steps += [driver.join("n", T), driver.describe(), driver.classic_heartbeat(1)]
    steps += [driver.classic_join(driver.classic_id, 0, 1, 2, 3, 4), driver.classic_sync(1), driver.send("n")]
    steps += [driver.describe(), driver.classic_heartbeat(1)]
    kept = driver.describe()["members"]["classic"]["target"][T]
    steps += [driver.classic_join(driver.classic_id, *kept), driver.classic_sync(2), driver.classic_heartbeat(2)]
    steps += [driver.send("n"), driver.describe(), driver.classic_heartbeat(9)]
    steps += [driver.send("n", -1), driver.describe(), driver.classic_join(driver.classic_id)]
    steps += [driver.classic_sync(4, 0, 1, 2, 3, 4), driver.classic_heartbeat(4)]
    return steps


def unreported_life(driver: Driver) -> list[Any]:
    """A member that does not report what it was given loses it to the next one at once: to the coordinator, a heartbeat
    that lists no partitions means that the member owns none, even if the member has yet to act on its assignment."""
    steps: list[Any] = [driver.join("a", T), driver.join("b", T)]
    steps += [driver.send("a", topic_partitions=[]), driver.send("b"), driver.describe()]
    return steps


def refusals(driver: Driver) -> list[Any]:
    driver.join("a", T, instance_id="i")
    listed = driver._listed({T: [0]})
    return [
        driver.send("nobody", 1),
        driver.send("a", 9, instance_id="i"),
        driver.send("a", 1, instance_id="i"),
        driver.send("b", 0, rebalance_timeout_ms=1, subscribed_topic_names=[T], instance_id="i"),
        driver.send("b", -1, instance_id="i"),
        driver.send("a", -1, instance_id="j"),
        driver.send("b", -2),
        driver.send("b", -3),
        driver.send("b", 0, subscribed_topic_names=[T]),
        driver.send("b", 0, rebalance_timeout_ms=1),
        driver.send("b", 0, rebalance_timeout_ms=1, subscribed_topic_names=[T], topic_partitions=listed),
        driver.send("b", 0, rebalance_timeout_ms=1, subscribed_topic_names=[T], topic_partitions=None),
        driver.send("", 0, rebalance_timeout_ms=1, subscribed_topic_names=[T]),
        driver.send("b", 0, rebalance_timeout_ms=1, subscribed_topic_names=[T], instance_id=""),
        driver.send("b", 0, rebalance_timeout_ms=1, subscribed_topic_names=[T], rack_id=" "),
        driver.send("b", 0, rebalance_timeout_ms=1, subscribed_topic_names=[T], server_assignor="mine"),
        driver.send("b", 0, rebalance_timeout_ms=1, subscribed_topic_regex="("),
        driver.send("b", 0, rebalance_timeout_ms=1, subscribed_topic_regex="(?=x)"),
        driver.describe(),
    ]


LIVES = {
    "uniform": uniform_life,
    "range": range_life,
    "mixed": mixed_life,
    "unreported": unreported_life,
    "refusals": refusals,
}


@pytest.mark.parametrize("life", LIVES)
def test_a_group_lives_the_same_life_on_both(kafka: ApacheKafka, oncelog: Broker, life: str) -> None:
    told = {}
    for broker in (kafka, oncelog):
        with Driver(broker.bootstrap_servers, f"g-{life}") as driver:
            told[broker] = LIVES[life](driver)
    assert told[oncelog] == told[kafka]


@pytest.mark.parametrize("life", [uniform_life, mixed_life])
def test_the_log_has_the_same_records(kafka: ApacheKafka, oncelog: Broker, life: Callable[[Driver], list[Any]]) -> None:
    """Kafka's own decoder reads ours. Among records of one type, one after the other, Kafka's hash tables decide."""
    dumped = {}
    group_id = f"g-records-{life.__name__}"
    for broker in (kafka, oncelog):
        with Driver(broker.bootstrap_servers, group_id) as driver:
            life(driver)
            records = [_normal(driver, record) for record in _dump(Path(broker.data_dir), group_id)]
            dumped[broker] = [sorted(run, key=str) for _, run in groupby(records, lambda record: record[0]["type"])]
    assert dumped[oncelog] == dumped[kafka]


def test_an_expression_finds_the_same_topics(kafka: ApacheKafka, oncelog: Broker) -> None:
    """Kafka resolves it in the background, so the ways there differ."""
    for broker in (kafka, oncelog):
        with Driver(broker.bootstrap_servers, "g-regex") as driver:
            driver.send("a", 0, rebalance_timeout_ms=30_000, subscribed_topic_regex="conformance-[tv]")
            deadline = time.monotonic() + 30
            while driver.owned["a"] != {T: [0, 1, 2, 3, 4]}:
                assert time.monotonic() < deadline
                driver.send("a")
                time.sleep(0.05)
            records = [_normal(driver, record) for record in _dump(Path(broker.data_dir), "g-regex")]
            resolved = [(key["data"], value["topics"]) for key, value in records if key["type"] == "16"]
            assert resolved == [({"groupId": "g-regex", "regularExpression": "conformance-[tv]"}, [T])]


_RECORD = re.compile(r"key: (\{.*\}) payload: (.*)$")


def _dump(data_dir: Path, group_id: str) -> list[tuple[str, str]]:
    found = []
    for path in sorted(data_dir.glob("__consumer_offsets-*/*.log")):
        if path.stat().st_size and group_id.encode() in path.read_bytes():
            done = run_tool("kafka-dump-log", "--offsets-decoder", "--files", str(path))
            assert done.returncode == 0, done.stderr
            records = [match.groups() for match in map(_RECORD.search, done.stdout.splitlines()) if match]
            found += [(key, value) for key, value in records if f'"{group_id}"' in key]
    assert found
    return found


def _normal(driver: Driver, record: tuple[str, str]) -> Any:
    """Lists are sorted, since Kafka writes them in the order of its hash tables."""
    key, value = (driver.normal(text) for text in record)
    decoded = None if value == "<DELETE>" else json.loads(value)["data"]
    if decoded is not None:
        for name in ("metadataHash", "assignmentTimestamp", "clientId", "currentStateTimestamp"):
            decoded.pop(name, None)
        for name in ("topicPartitions", "assignedPartitions", "partitionsPendingRevocation"):
            if name in decoded:
                decoded[name] = sorted(
                    (topic["topicId"], partition, epoch)
                    for topic in decoded[name]
                    for partition, epoch in zip_longest(topic["partitions"], topic.get("assignmentEpochs", ()))
                )
    return json.loads(key), decoded
