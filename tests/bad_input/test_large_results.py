"""What a coordinator has to write at once may be more than a batch may have, and is nobody else's business."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from oncelog.protocol.messages.delete_groups import DeleteGroupsRequest
from oncelog.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from oncelog.protocol.messages.find_coordinator import FindCoordinatorRequest
from oncelog.protocol.messages.list_groups import ListGroupsRequest
from oncelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from oncelog.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.bad_input.conftest import StartBroker
from tests.bad_input.live import LiveBroker
from tests.bad_input.raw import RawClient, wait_until
from tests.bad_input.requests import create_topic
from tests.bad_input.test_groups import join
from tests.transactions.wire_producer import NEW, TxnProducer

PARTITIONS = 100
BATCH_BYTES_MAX = 2000
"""Less than a record of each of the partitions takes, more than any one of them does."""
TOPIC, GROUP, NEIGHBOUR = "topic", "group", "neighbour"
DELAY_MS = 100_000


class World:
    """A broker on which a member of another group waits in JoinGroup, at the same coordinator."""

    def __init__(self, broker: LiveBroker, client: RawClient, waiting: RawClient) -> None:
        self.broker = broker
        self.client = client
        self._waiting = waiting
        create_topic(client, TOPIC, partitions=PARTITIONS)
        assert client.call(FindCoordinatorRequest(coordinator_keys=[GROUP]), 6).coordinators[0].error_code == 0
        self._join = join(NEIGHBOUR, session_timeout_ms=2 * DELAY_MS)
        self._sent = waiting.send(self._join, 3)
        wait_until(lambda: self.groups().get(NEIGHBOUR) == "PreparingRebalance", "the neighbour waits")

    def groups(self) -> dict[str, str]:
        return {group.group_id: group.group_state for group in self.client.call(ListGroupsRequest(), 5).groups}

    def offsets(self) -> int:
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=None)])
        (group,) = self.client.call(request, 8).groups
        assert group.error_code == 0
        return sum(len(topic.partitions) for topic in group.topics)

    def commit(self) -> None:
        entries = [
            OffsetCommitRequestPartition(partition_index=index, committed_offset=5, committed_metadata="x" * 100)
            for index in range(PARTITIONS)
        ]
        topics = [OffsetCommitRequestTopic(name=TOPIC, partitions=entries)]
        answer = self.client.call(OffsetCommitRequest(group_id=GROUP, topics=topics), 9)
        assert {entry.error_code for entry in answer.topics[0].partitions} == {0}

    def commit_in_a_transaction(self) -> None:
        producer = TxnProducer(self.client, NEW)
        entries = [
            TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=5, committed_metadata="x" * 100)
            for index in range(PARTITIONS)
        ]
        request = TxnOffsetCommitRequest(
            transactional_id=producer.name,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            group_id=GROUP,
            generation_id=-1,
            member_id="",
            topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=entries)],
        )
        answer = self.client.call(request, 5)
        assert {entry.error_code for entry in answer.topics[0].partitions} == {0}
        assert self.offsets() == 0
        assert producer.end() == 0

    def delete_topic(self) -> None:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=TOPIC)], timeout_ms=5000)
        assert self.client.call(request, 6).responses[0].error_code == 0

    def delete_group(self) -> None:
        answer = self.client.call(DeleteGroupsRequest(groups_names=[GROUP]), 2)
        assert answer.results[0].error_code == 0

    def let_offsets_expire(self) -> None:
        # Less than the neighbour's delay, since the retention is a minute.
        self.advance(61_000)

    def advance(self, duration_ms: int) -> None:
        self.broker.on_loop(lambda: self.broker.app.services.clock.advance(duration_ms))

    def check_neighbour(self) -> None:
        self.advance(DELAY_MS)
        assert self._waiting.read_answer(self._join, 3, self._sent).error_code == 0


@pytest.fixture
def world(start_broker: StartBroker) -> Iterator[World]:
    broker = start_broker(
        {
            "message.max.bytes": str(BATCH_BYTES_MAX),
            "offsets.topic.num.partitions": "1",
            "offsets.retention.minutes": "1",
            "offsets.retention.check.interval.ms": "1000",
            "group.initial.rebalance.delay.ms": str(DELAY_MS),
        }
    )
    with RawClient(broker.port) as client, RawClient(broker.port) as waiting:
        world = World(broker, client, waiting)
        yield world
        world.check_neighbour()


@pytest.mark.parametrize("commit", [World.commit, World.commit_in_a_transaction])
@pytest.mark.parametrize("remove", [World.delete_topic, World.delete_group, World.let_offsets_expire])
def test_offsets_that_come_and_go_at_once(
    world: World, commit: Callable[[World], None], remove: Callable[[World], None]
) -> None:
    commit(world)
    assert world.offsets() == PARTITIONS
    remove(world)
    wait_until(lambda: world.offsets() == 0, "the offsets are gone")
