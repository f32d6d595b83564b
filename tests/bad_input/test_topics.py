"""Rows 57 and 62-65: what no topic may be called or have, and requests about topics that are not there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from oncelog.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopicConfig
from oncelog.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from oncelog.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from oncelog.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from oncelog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.bad_input.conftest import ErrorLog, Neighbour, StartBroker, Target
from tests.bad_input.live import LiveBroker
from tests.bad_input.raw import RawClient
from tests.bad_input.requests import (
    CREATE_TOPICS_VERSION,
    INT32_MAX,
    PRODUCE_VERSION,
    batch,
    create_topic,
    create_topics,
    produce,
    produce_codes,
)

METADATA_VERSION = 12
BAD_NAMES = [
    "",
    ".",
    "..",
    "x" * 250,
    "x" * 32_000,
    "a/b",
    "../x",
    "/etc/passwd",
    "a\0b",
    "\0",
    "é",
    "日本",
    "a b",
    "a\nb",
    "a:b",
    "a*",
    "\U0001f600",
]


@contextmanager
def untouched(broker: LiveBroker) -> Iterator[None]:
    """Neither the data directory nor the one around it gains or loses an entry, and no topic comes or goes."""

    def state() -> tuple[list[str], list[str], list[str]]:
        entries = [sorted(path.name for path in where.iterdir()) for where in (broker.data_dir, broker.data_dir.parent)]
        return entries[0], entries[1], sorted(broker.app.services.metadata.image.topics)

    before = state()
    yield
    assert state() == before


def created(client: RawClient, request: Any, version: int = CREATE_TOPICS_VERSION) -> dict[str, int]:
    return {topic.name: topic.error_code for topic in client.call(request, version).topics}


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_name_that_no_topic_may_have(broker: LiveBroker, client: RawClient, name: str) -> None:
    with untouched(broker):
        for version in range(2, 8):
            assert created(client, create_topics(name), version) == {name: 17}
        for version in range(13):
            asked = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)
            (topic,) = client.call(asked, version).topics
            assert (topic.error_code, topic.name) == (17, name)
        (deleted,) = client.call(DeleteTopicsRequest(topic_names=[name]), 5).responses
        assert deleted.error_code == 3


def test_a_name_that_no_topic_may_have_is_not_created_by_asking(start_broker: StartBroker) -> None:
    broker = start_broker({"auto.create.topics.enable": "true"})
    with RawClient(broker.port) as client, untouched(broker):
        asked = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in BAD_NAMES], allow_auto_topic_creation=True
        )
        answered = client.call(asked, METADATA_VERSION).topics
        assert {topic.name: topic.error_code for topic in answered} == dict.fromkeys(BAD_NAMES, 17)


def test_names_that_differ_only_in_dots_and_underscores(broker: LiveBroker, client: RawClient) -> None:
    create_topic(client, "like_this.one")
    with untouched(broker):
        for name in ("like.this.one", "like_this_one", "like.this_one"):
            assert created(client, create_topics(name)) == {name: 17}
        assert created(client, create_topics("like_this.one")) == {"like_this.one": 36}
    assert created(client, create_topics("and_that.one", "and.that_one")) == {"and_that.one": 0, "and.that_one": 17}


def test_a_topic_twice_in_one_request(broker: LiveBroker, client: RawClient) -> None:
    with untouched(broker):
        assert created(client, create_topics("twice", "twice")) == {"twice": 42}


@pytest.mark.parametrize(
    ("partitions", "code"), [(0, 37), (-2, 37), (-(2**31), 37), (INT32_MAX, 44), (10_001, 44), (200_001, 44)]
)
def test_a_number_of_partitions(broker: LiveBroker, client: RawClient, partitions: int, code: int) -> None:
    with untouched(broker):
        assert created(client, create_topics("counted", partitions=partitions)) == {"counted": code}
        several = create_topics("counted-1", "counted-2", partitions=partitions)
        assert set(created(client, several).values()) == {code}


@pytest.mark.parametrize("factor", [0, 9, 2, -2, 32767, -32768])
def test_a_replication_factor(broker: LiveBroker, client: RawClient, factor: int) -> None:
    with untouched(broker):
        assert created(client, create_topics("replicated", factor=factor)) == {"replicated": 38}


@pytest.mark.parametrize(
    ("assignments", "counts", "code"),
    [
        ([(0, [0])], (1, 1), 42),
        ([(0, [0])], (-1, 1), 42),
        ([(0, [0])], (1, -1), 42),
        ([(0, [])], (-1, -1), 39),
        ([(0, [0, 0])], (-1, -1), 39),
        ([(0, [77])], (-1, -1), 39),
        ([(0, [-1])], (-1, -1), 39),
        ([(1, [0])], (-1, -1), 39),
        ([(-1, [0])], (-1, -1), 39),
        ([(INT32_MAX, [0])], (-1, -1), 39),
        ([(0, [0]), (0, [0])], (-1, -1), 39),
    ],
)
def test_an_assignment(
    broker: LiveBroker,
    client: RawClient,
    assignments: list[tuple[int, list[int]]],
    counts: tuple[int, int],
    code: int,
) -> None:
    node = broker.app.services.broker_id
    request = create_topics("assigned", partitions=counts[0], factor=counts[1])
    request.topics[0].assignments = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=[node if one == 0 else one for one in brokers])
        for index, brokers in assignments
    ]
    with untouched(broker):
        assert created(client, request) == {"assigned": code}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("no.such.config", "1"),
        ("", ""),
        ("retention.ms", "soon"),
        ("retention.ms", "9" * 40),
        ("retention.ms", ""),
        ("retention.ms", None),
        ("cleanup.policy", "burn"),
        ("segment.bytes", "-1"),
        ("max.message.bytes", str(2**40)),
        ("min.insync.replicas", "0"),
        ("x" * 32_000, "y" * 32_000),
        ("compression.type", "\0"),
    ],
)
@pytest.mark.parametrize("version", range(2, 8))
def test_a_setting(broker: LiveBroker, client: RawClient, key: str, value: str | None, version: int) -> None:
    request = create_topics("configured")
    request.topics[0].configs = [CreatableTopicConfig(name=key, value=value)]
    with untouched(broker):
        assert created(client, request, version) == {"configured": 40}


def test_only_the_bad_topics_of_a_request_are_refused(client: RawClient) -> None:
    assert created(client, create_topics("only-good", "only/bad")) == {"only-good": 0, "only/bad": 17}


def delete_records(client: RawClient, topic: str, index: int, offset: int) -> tuple[int, int]:
    partition = DeleteRecordsPartition(partition_index=index, offset=offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[partition])], timeout_ms=5000)
    (result,) = client.call(request, 2).topics[0].partitions
    return result.error_code, result.low_watermark


def test_deleting_records_that_are_not_there(broker: LiveBroker, client: RawClient, target: Target) -> None:
    assert produce_codes(client.call(produce(target.name, batch()), PRODUCE_VERSION)) == [0]
    target.written = 1
    for offset in (2, 2**63 - 1, -2, -(2**63)):
        assert delete_records(client, target.name, 0, offset) == (1, -1)
    assert delete_records(client, target.name, 1, 0) == (3, -1)
    assert delete_records(client, target.name, -1, 0) == (3, -1)
    assert delete_records(client, "../nowhere", 0, 0) == (3, -1)
    assert broker.partition(target.name).log.log_start_offset == 0
    assert delete_records(client, target.name, 0, -1) == (0, 1)


@pytest.mark.parametrize("target", [{"cleanup_policy": "compact"}], indirect=True)
def test_deleting_records_of_a_compacted_topic(client: RawClient, target: Target) -> None:
    assert delete_records(client, target.name, 0, 0) == (44, -1)


@pytest.mark.parametrize(
    ("count", "code"), [(1, 37), (2, 37), (0, 37), (-1, 37), (-(2**31), 37), (INT32_MAX, 44), (10_003, 44)]
)
def test_a_topic_does_not_shrink_or_grow_beyond_measure(
    broker: LiveBroker, client: RawClient, count: int, code: int
) -> None:
    topic = "two-partitions"
    if topic not in broker.app.services.metadata.image.topics:
        create_topic(client, topic, partitions=2)
    wanted = CreatePartitionsTopic(name=topic, count=count, assignments=None)
    with untouched(broker):
        for version in range(4):
            (result,) = client.call(CreatePartitionsRequest(topics=[wanted], timeout_ms=5000), version).results
            assert result.error_code == code
        (missing,) = client.call(
            CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="../x", count=5, assignments=None)]), 3
        ).results
        assert missing.error_code == 3
        doubled = client.call(CreatePartitionsRequest(topics=[wanted, wanted]), 3).results
        assert {result.error_code for result in doubled} == {42}


def test_an_election_that_nobody_needs(client: RawClient, target: Target) -> None:
    asked = [TopicPartitions(topic=target.name, partitions=[0]), TopicPartitions(topic="nowhere", partitions=[0])]
    response = client.call(ElectLeadersRequest(election_type=0, topic_partitions=asked, timeout_ms=5000), 2)
    codes = {
        result.topic: [part.error_code for part in result.partition_result]
        for result in response.replica_election_results
    }
    assert codes == {target.name: [84], "nowhere": [3]}


def test_deleting_topics_that_are_not_there(broker: LiveBroker, client: RawClient) -> None:
    with untouched(broker):
        states = [
            DeleteTopicState(name="nowhere"),
            DeleteTopicState(name=None, topic_id=b"\xff" * 16),
            DeleteTopicState(name=None, topic_id=bytes(16)),
            DeleteTopicState(name="neighbour", topic_id=b"\xff" * 16),
        ]
        answered = client.call(DeleteTopicsRequest(topics=states, timeout_ms=5000), 6).responses
        assert [result.error_code for result in answered] == [3, 100, 42, 42]
        twice = DeleteTopicsRequest(topics=[DeleteTopicState(name="neighbour")] * 2, timeout_ms=5000)
        assert {result.error_code for result in client.call(twice, 6).responses} == {42}


def asked_for(names: list[str]) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=True)


def test_a_hundred_thousand_unknown_names(broker: LiveBroker, client: RawClient) -> None:
    names = [f"unknown-{index}" for index in range(100_000)]
    with untouched(broker):
        answered = client.call(asked_for(names), METADATA_VERSION).topics
    assert [topic.name for topic in answered] == names
    assert {topic.error_code for topic in answered} == {3}


def test_a_hundred_thousand_unknown_names_with_auto_creation(start_broker: StartBroker) -> None:
    broker = start_broker({"auto.create.topics.enable": "true"})
    names = [f"unknown-{index}" for index in range(100_000)]
    with RawClient(broker.port) as client:
        answered = client.call(asked_for(names), METADATA_VERSION).topics
    assert len(answered) == len(names)
    unknown = [topic.name for topic in answered if topic.error_code == 3]
    made = broker.app.services.metadata.image.topics
    assert len(made) <= 100
    assert set(unknown) == set(names) - set(made)
    assert {topic.error_code for topic in answered} == {0, 3}


def test_auto_creation_only_where_the_client_allows_it(start_broker: StartBroker) -> None:
    broker = start_broker({"auto.create.topics.enable": "true"})
    with RawClient(broker.port) as client, untouched(broker):
        request = asked_for(["unwanted"])
        request.allow_auto_topic_creation = False
        for version in range(4, 14):
            (topic,) = client.call(request, version).topics
            assert topic.error_code == 3


@pytest.mark.parametrize(("version", "code"), [(10, 42), (11, 42), (12, 100), (13, 100)])
def test_metadata_of_a_topic_id_that_does_not_exist(client: RawClient, version: int, code: int) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(topic_id=b"\xff" * 16, name=None)])
    (topic,) = client.call(request, version).topics
    assert topic.error_code == code


def write_strangers(root: Path) -> None:
    """In the place of partition 0 a file, of 1 somebody's folder, of 2 a partition of another broker."""
    (root / "t-0").write_text("a file")
    for index, name, text in ((1, "notes.txt", "a note"), (2, "partition.metadata", "version: 0")):
        (root / f"t-{index}").mkdir()
        (root / f"t-{index}" / name).write_text(text)


def strangers(root: Path) -> dict[str, str]:
    paths = [path for path in root.rglob("*") if path.name.startswith("t-") or path.parent.name in ("t-1", "t-2")]
    return {str(path): path.read_text() for path in paths if path.is_file()}


@pytest.mark.parametrize("while_it_runs", [False, True])
def test_a_topic_whose_directories_are_taken(
    start_broker: StartBroker, tmp_path: Path, error_log: ErrorLog, while_it_runs: bool
) -> None:
    root = tmp_path / "data"
    root.mkdir()
    if not while_it_runs:
        write_strangers(root)
    broker = start_broker(data_dir=root)
    if while_it_runs:
        write_strangers(root)
    before = strangers(root)
    with Neighbour(broker) as neighbour, RawClient(broker.port) as client:
        create_topic(client, "t", partitions=4)
        for index in (0, 1, 2) * 3:
            response = client.call(produce("t", batch(), index=index), PRODUCE_VERSION)
            (answer,) = response.responses[0].partition_responses
            assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert f"t-{index} is in the way" in answer.error_message
        assert produce_codes(client.call(produce("t", batch(), index=3), PRODUCE_VERSION)) == [0]
        assert [line.partition(" cannot be opened")[0] for line in error_log.lines] == ["t-0", "t-1", "t-2"]
        error_log.lines.clear()
        neighbour.check()
        assert strangers(root) == before
        del before[str(root / "t-0")]
        (root / "t-0").unlink()
        assert produce_codes(client.call(produce("t", batch()), PRODUCE_VERSION)) == [0]
        client.call(DeleteTopicsRequest(timeout_ms=5000, topics=[DeleteTopicState(name="t")]), 6)
        neighbour.check()
    broker.stop()
    assert strangers(root) == before
