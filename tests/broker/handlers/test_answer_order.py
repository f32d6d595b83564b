"""Answers in the order of the request, as Kafka gives them: Fetch and OffsetFetch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog.protocol.messages.find_coordinator import FindCoordinatorRequest
from oncelog.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.bad_input.live import LiveBroker
from tests.bad_input.raw import RawClient
from tests.bad_input.requests import batch, create_topic, produce, record

BY_NAME, BY_ID = 12, 16
ABSENT_ID = b"\x05" * 16


class Topics:
    """Two topics of three partitions with a record of about 1 KB in each."""

    def __init__(self, client: RawClient) -> None:
        self.client = client
        self.ids = {name: create_topic(client, name, partitions=3) for name in ("a", "b")}
        for name in self.ids:
            for index in range(3):
                client.call(produce(name, batch(record(bytes(1000))), index=index), 9)

    def fetch(self, version: int, *wanted: str, **options: Any) -> list[str]:
        """`fetch(12, "a0", "b1")` is the answer's partitions, in groups by topic: `["a0+", "b1"]`, + for records."""
        topics = [
            FetchTopic(
                topic=each[:-1],
                topic_id=self.ids.get(each[:-1], ABSENT_ID),
                partitions=[FetchPartition(partition=int(each[-1]), fetch_offset=0, partition_max_bytes=1 << 20)],
            )
            for each in wanted
        ]
        values: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "session_epoch": -1}
        request = FetchRequest(topics=topics, **values | options)
        self.answer = self.client.call(request, version)
        names = {topic_id: name for name, topic_id in self.ids.items()}
        shown = []
        for topic in self.answer.responses:
            name = topic.topic or names.get(topic.topic_id, "absent")
            indexes = ",".join(f"{part.partition_index}{'+' if part.records else ''}" for part in topic.partitions)
            shown.append(f"{name}{indexes}")
        return shown


@pytest.fixture
def topics(tmp_path: Path) -> Iterator[Topics]:
    broker = LiveBroker(tmp_path)
    with RawClient(broker.port) as client:
        yield Topics(client)
    broker.stop()


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
def test_fetch_keeps_the_order_and_a_topic_that_comes_twice_stays_split(topics: Topics, version: int) -> None:
    assert topics.fetch(version, "b2", "b0", "a1") == ["b2+,0+", "a1+"]
    assert topics.fetch(version, "a2", "b1", "a0") == ["a2+", "b1+", "a0+"]


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
def test_space_runs_out_in_that_order(topics: Topics, version: int) -> None:
    assert topics.fetch(version, "b2", "a1", "b0", max_bytes=2500) == ["b2+", "a1+", "b0"]
    assert topics.fetch(version, "b2", "a1", "b0", max_bytes=1) == ["b2+", "a1", "b0"]


def test_what_does_not_exist_comes_last(topics: Topics) -> None:
    wanted = ("absent0", "a9", "b1", "absent1", "a0")
    assert topics.fetch(BY_NAME, *wanted) == ["b1+", "a0+", "absent0", "a9", "absent1"]
    assert topics.fetch(BY_ID, *wanted) == ["b1+", "a0+", "absent0,1", "a9"]


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
def test_a_session_turns_with_its_second_answer(topics: Topics, version: int) -> None:
    """As in Kafka, the first answer of a session is of its own order, and what an incremental one serves goes last."""
    assert topics.fetch(version, "a2", "b1", "a0", max_bytes=1, session_epoch=0) == ["a2+", "b1", "a0"]
    session_id = topics.answer.session_id
    seen = [topics.fetch(version, max_bytes=1, session_id=session_id, session_epoch=epoch) for epoch in range(1, 5)]
    assert seen == [["a2+"], ["b1+"], ["a0+"], ["a2+"]]


def test_offset_fetch_by_id_has_unknown_topics_last(topics: Topics) -> None:
    ids = [ABSENT_ID, topics.ids["b"], topics.ids["a"]]
    asked = [OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=[2, 0]) for topic_id in ids]
    topics.client.call(FindCoordinatorRequest(coordinator_keys=["g"]), 6)
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=asked)])
    (group,) = topics.client.call(request, 10).groups
    assert group.error_code == 0, group.error_code
    assert [topic.topic_id for topic in group.topics] == [topics.ids["b"], topics.ids["a"], ABSENT_ID]
    assert [part.partition_index for part in group.topics[0].partitions] == [2, 0]
    assert {part.error_code for part in group.topics[2].partitions} == {ErrorCode.UNKNOWN_TOPIC_ID}
