"""Topics with very many partitions come, are used, and go, and the event loop has time for others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from oncelog.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from oncelog.protocol.messages.create_topics import CreateTopicsRequest
from oncelog.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from oncelog.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from oncelog.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from oncelog.protocol.messages.find_coordinator import FindCoordinatorRequest
from oncelog.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from oncelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from oncelog.testing import Broker
from tests.bad_input.raw import RawClient, wait_until
from tests.bad_input.requests import CREATE_TOPICS_VERSION, create_topic, create_topics
from tests.bad_input.test_large_requests import COMPUTING_SECONDS_MAX, GROWTH_MB_MAX, memory_mb
from tests.transactions.wire_producer import port_of

PARTITIONS = 500
TIMEOUT_MS = 60_000
BROKER = 4
GROUP = 32
"""Types of resources that have settings."""

pytestmark = pytest.mark.timeout(180)


class World:
    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.broker = Broker(data_dir=data_dir, subprocess=True)
        self.broker.start()
        self.client = RawClient(port_of(self.broker))

    def close(self) -> None:
        self.client.socket.close()
        self.broker.stop()

    def restart(self) -> None:
        self.client.socket.close()
        self.broker.restart()
        self.client = RawClient(port_of(self.broker))

    def directories(self, suffix: str = "") -> int:
        return sum(path.name.endswith(suffix) and path.is_dir() for path in self.data_dir.iterdir())

    def create(self, *names: str, partitions: int = PARTITIONS) -> None:
        answer = self.client.call(create_topics(*names, partitions=partitions), CREATE_TOPICS_VERSION)
        assert {topic.error_code for topic in answer.topics} == {0}

    def delete(self, name: str) -> None:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=TIMEOUT_MS)
        assert self.client.call(request, 6).responses[0].error_code == 0

    def wait_for_directories(self, count: int, suffix: str = "") -> None:
        wait_until(lambda: self.directories(suffix) == count, f"there are {count} directories")

    @contextmanager
    def fair(self) -> Iterator[None]:
        """The event loop is never kept for long."""
        self.broker.take_loop_lag()
        yield
        assert self.broker.take_loop_lag().computing_seconds < COMPUTING_SECONDS_MAX


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "data")
    yield world
    world.close()


def test_a_large_topic_comes_and_goes(world: World) -> None:
    with world.fair():
        world.create("large")
        world.wait_for_directories(PARTITIONS)
    with world.fair():
        world.delete("large")
        world.wait_for_directories(PARTITIONS, "-delete")


def test_a_large_topic_is_made_anew_under_the_same_name(world: World) -> None:
    world.create("large")
    world.wait_for_directories(PARTITIONS)
    with world.fair():
        world.delete("large")
        world.create("large")
        world.wait_for_directories(2 * PARTITIONS)
    assert world.directories("-delete") == PARTITIONS


def test_a_kill_leaves_nothing_of_what_was_deleted(world: World) -> None:
    world.create("large")
    world.wait_for_directories(PARTITIONS)
    world.delete("large")
    world.broker.kill()
    world.restart()
    assert world.directories() == world.directories("-delete")


def test_more_partitions_and_many_topics(world: World) -> None:
    world.create("growing", partitions=1)
    topics = [CreatePartitionsTopic(name="growing", count=PARTITIONS, assignments=None)]
    with world.fair():
        answer = world.client.call(CreatePartitionsRequest(topics=topics, timeout_ms=TIMEOUT_MS), 3)
        assert answer.results[0].error_code == 0
        world.wait_for_directories(PARTITIONS)
    with world.fair():
        world.create(*(f"t{number}" for number in range(900)), partitions=1)


def test_partitions_are_opened_after_a_restart(world: World) -> None:
    world.create("large")
    world.restart()
    partitions = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(PARTITIONS)]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="large", partitions=partitions)])
    with world.fair():
        (answer,) = world.client.call(request, 7).topics
    assert {partition.error_code for partition in answer.partitions} == {0}


def test_records_of_many_partitions_are_deleted_with_one_checkpoint(world: World) -> None:
    world.create("large")
    world.wait_for_directories(PARTITIONS)
    partitions = [DeleteRecordsPartition(partition_index=index, offset=0) for index in range(PARTITIONS)]
    topics = [DeleteRecordsTopic(name="large", partitions=partitions)]
    with world.fair():
        (answer,) = world.client.call(DeleteRecordsRequest(topics=topics, timeout_ms=TIMEOUT_MS), 2).topics
    assert {partition.error_code for partition in answer.partitions} == {0}


def test_all_offsets_of_a_group_are_told_once(world: World) -> None:
    """However often one request asks for them."""
    partitions = 5000
    world.create("large", partitions=partitions)
    found = world.client.call(FindCoordinatorRequest(coordinator_keys=["g"]), 6).coordinators
    assert found[0].error_code == 0
    committed = [OffsetCommitRequestPartition(partition_index=index, committed_offset=7) for index in range(partitions)]
    topics = [OffsetCommitRequestTopic(name="large", partitions=committed)]
    answer = world.client.call(OffsetCommitRequest(group_id="g", topics=topics), 9)
    assert {partition.error_code for partition in answer.topics[0].partitions} == {0}
    groups = [OffsetFetchRequestGroup(group_id="g", topics=None) for _ in range(300)]
    for request, version in (
        (OffsetFetchRequest(groups=groups), 8),
        (OffsetFetchRequest(groups=groups), 10),
        (OffsetFetchRequest(group_id="g", topics=None), 7),
    ):
        with world.fair():
            answer = world.client.call(request, version)
        (told,) = answer.groups if version >= 8 else [answer]
        (topic,) = told.topics
        assert [(entry.partition_index, entry.committed_offset) for entry in topic.partitions] == [
            (index, 7) for index in range(partitions)
        ]


def test_few_elements_that_are_much_work(world: World) -> None:
    create_topic(world.client, "t")
    resources = [DescribeConfigsResource(resource_type=BROKER, resource_name="1") for _ in range(300)]
    resources += [DescribeConfigsResource(resource_type=GROUP, resource_name=f"g{number}") for number in range(29_000)]
    request = DescribeConfigsRequest(resources=resources, include_synonyms=True, include_documentation=True)
    before_mb = memory_mb(world.broker)
    with world.fair():
        broker, *groups = world.client.call(request, 4).results
    assert memory_mb(world.broker, peak=True) - before_mb <= GROWTH_MB_MAX
    assert len(broker.configs) > 100
    assert len(groups) == 29_000
    assert {group.error_code for group in groups} == {0}
    checked = create_topics(*(f"t{number}" for number in range(900)))
    with world.fair():
        validate = CreateTopicsRequest(topics=checked.topics, timeout_ms=TIMEOUT_MS, validate_only=True)
        assert len(world.client.call(validate, CREATE_TOPICS_VERSION).topics) == 900
