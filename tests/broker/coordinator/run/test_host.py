"""The shards of an internal topic, as they are loaded at the start."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from oncelog.broker.base import turns as turns_module
from oncelog.broker.base.clock import Clock
from oncelog.broker.base.immediate_future import Promise
from oncelog.broker.base.turns import Turns
from oncelog.broker.coordinator.group.coordinator import GroupCoordinator
from oncelog.broker.coordinator.group.settings import GroupSettings
from oncelog.broker.coordinator.run.host import CoordinatorHost
from oncelog.broker.metadata.plans.topics import NewTopic
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.find_coordinator import FindCoordinatorRequest
from oncelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.bad_input.live import LiveBroker
from tests.bad_input.raw import RawClient
from tests.bad_input.requests import create_topic

EMPTY_LOG = SimpleNamespace(log_start_offset=0, end_offset=0, high_watermark=0)


class Partitions:
    """Those of a broker on which the first one cannot be opened."""

    def leader(self, _: str, index: int) -> Any:
        if index == 0:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "it is damaged")
        return SimpleNamespace(log=EMPTY_LOG)


async def test_a_partition_that_cannot_be_opened_does_not_keep_others_from_loading() -> None:
    states = [SimpleNamespace(index=index, leader=1) for index in range(3)]
    image = SimpleNamespace(topic=lambda _: SimpleNamespace(partitions=states))
    metadata: Any = SimpleNamespace(image=image)
    partitions: Any = Partitions()
    unused: Any = None
    host = CoordinatorHost(
        NewTopic("__consumer_offsets"),
        lambda *_: GroupCoordinator(GroupSettings),
        broker_id=1,
        metadata=metadata,
        partitions=partitions,
        clock=Clock(),
        turns=Turns(),
        create_topics=unused,
    )
    await host.load_all(lambda _, index: index != 2)
    assert host.shard_of_partition(0) is None
    shard = host.shard_of_partition(1)
    assert shard is not None
    assert shard.loaded
    assert host.shard_of_partition(2) is None
    host.close()


def test_the_loop_serves_others_while_coordinators_read_their_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step of the loading is one record, and as many run in a turn of the loop as its time allows: here one."""
    offsets = [OffsetCommitRequestPartition(partition_index=index, committed_offset=index) for index in range(300)]
    commit = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=-1,
        topics=[OffsetCommitRequestTopic(name="t", partitions=offsets)],
    )
    broker = LiveBroker(tmp_path)
    with RawClient(broker.port) as client:
        create_topic(client, "t", partitions=300)
        client.call(FindCoordinatorRequest(coordinator_keys=["g"]), 6)
        answered = client.call(commit, 8).topics[0].partitions
        assert {partition.error_code for partition in answered} == {0}
    broker.stop()
    rests = 0
    next_turn = Turns.next

    def count(turns: Turns) -> Promise[None]:
        nonlocal rests
        rests += 1
        return next_turn(turns)

    monkeypatch.setattr(turns_module, "TURN_SECONDS", 0)
    monkeypatch.setattr(Turns, "next", count)
    broker = LiveBroker(tmp_path)
    with RawClient(broker.port) as client:
        fetch = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
        (topic,) = client.call(fetch, 8).groups[0].topics
    broker.stop()
    assert {part.partition_index: part.committed_offset for part in topic.partitions} == dict(
        zip(range(300), range(300), strict=True)
    )
    assert rests >= 300
