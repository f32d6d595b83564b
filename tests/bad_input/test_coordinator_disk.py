"""Row 70 for coordinators: if the disk of their partition has failed, clients are told at once to come again."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from oncelog.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from oncelog.protocol.messages.delete_groups import DeleteGroupsRequest
from oncelog.protocol.messages.describe_groups import DescribeGroupsRequest
from oncelog.protocol.messages.describe_transactions import DescribeTransactionsRequest
from oncelog.protocol.messages.find_coordinator import FindCoordinatorRequest
from oncelog.protocol.messages.init_producer_id import InitProducerIdRequest
from oncelog.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from oncelog.protocol.messages.list_groups import ListGroupsRequest
from oncelog.protocol.messages.list_transactions import ListTransactionsRequest
from oncelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from oncelog.protocol.messages.sync_group import SyncGroupRequest
from tests.bad_input.conftest import ErrorLog, StartBroker
from tests.bad_input.faulty_disk import FaultyDisk
from tests.bad_input.live import LiveBroker
from tests.bad_input.raw import RawClient
from tests.bad_input.requests import create_topic
from tests.bad_input.test_groups import consumer_heartbeat, heartbeat, join
from tests.transactions.wire_producer import NEW, OLD, TRANSACTIONAL_ID_TYPE, TxnProducer

BROKEN, HEALTHY = "a", "b"
"""Names that are in different partitions of two."""
UNAVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE
SETTINGS = {
    "log.flush.on.ack": "true",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
}


class World:
    def __init__(self, broker: LiveBroker, disk: FaultyDisk, client: RawClient) -> None:
        self.broker = broker
        self.disk = disk
        self.client = client
        for topic in ("topic", "other"):
            create_topic(client, topic)

    def find(self, name: str, key_type: int = 0) -> int:
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[name])
        code: int = self.client.call(request, 6).coordinators[0].error_code
        return code

    def commit(self, group: str) -> int:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="")
        topics = [OffsetCommitRequestTopic(name="topic", partitions=[partition])]
        answer = self.client.call(OffsetCommitRequest(group_id=group, topics=topics), 9)
        code: int = answer.topics[0].partitions[0].error_code
        return code

    def call(self, request: Any, version: int) -> Any:
        return self.client.call(request, version)


@pytest.fixture
def world(start_broker: StartBroker, error_log: ErrorLog) -> Iterator[World]:
    disk = FaultyDisk()
    broker = start_broker(SETTINGS, disk=disk)
    with RawClient(broker.port) as client:
        yield World(broker, disk, client)
    disk.sync_error = 0
    broker.stop()
    (line,) = error_log.lines
    assert "a sync failed" in line
    error_log.lines.clear()


@pytest.fixture
def groups(world: World) -> World:
    """The offsets of one of two groups are in a partition that is offline."""
    for group in (HEALTHY, BROKEN):
        assert world.find(group) == 0
        assert world.commit(group) == 0
    world.disk.broken_directory, world.disk.sync_error = "__consumer_offsets", errno.EIO
    assert world.commit(BROKEN) == UNAVAILABLE
    world.disk.sync_error = 0
    return world


def sync() -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=BROKEN, generation_id=1, member_id="m", protocol_type="consumer", protocol_name="range"
    )


GROUP_REQUESTS: dict[str, Callable[[World], int]] = {
    "find": lambda world: world.find(BROKEN),
    "commit": lambda world: world.commit(BROKEN),
    "heartbeat": lambda world: world.call(heartbeat(BROKEN, "member", 1), 4).error_code,
    "join": lambda world: world.call(join(BROKEN), 9).error_code,
    "join-parked": lambda world: world.call(join(BROKEN), 3).error_code,
    "sync": lambda world: world.call(sync(), 5).error_code,
    "leave": lambda world: (
        world.call(LeaveGroupRequest(group_id=BROKEN, members=[MemberIdentity(member_id="member")]), 5).error_code
    ),
    "offset-fetch": lambda world: (
        world.call(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=BROKEN, topics=None)]), 8)
        .groups[0]
        .error_code
    ),
    "consumer-heartbeat": lambda world: world.call(consumer_heartbeat(BROKEN), 1).error_code,
    "describe": lambda world: world.call(DescribeGroupsRequest(groups=[BROKEN]), 6).groups[0].error_code,
    "consumer-describe": lambda world: (
        world.call(ConsumerGroupDescribeRequest(group_ids=[BROKEN]), 1).groups[0].error_code
    ),
    "delete": lambda world: world.call(DeleteGroupsRequest(groups_names=[BROKEN]), 2).results[0].error_code,
    "offset-of-a-transaction": lambda world: TxnProducer(world.client, NEW).send_offset(BROKEN, "topic", 1),
}


@pytest.mark.parametrize("ask", GROUP_REQUESTS.values(), ids=GROUP_REQUESTS)
def test_requests_of_a_group_whose_partition_is_offline(groups: World, ask: Callable[[World], int]) -> None:
    assert [ask(groups), ask(groups)] == [UNAVAILABLE, UNAVAILABLE]
    assert groups.commit(HEALTHY) == 0


def test_other_groups_are_listed(groups: World) -> None:
    listed = groups.call(ListGroupsRequest(), 5)
    assert (listed.error_code, [group.group_id for group in listed.groups]) == (0, [HEALTHY])


@pytest.fixture
def producer(world: World) -> TxnProducer:
    """Its transaction is open in `topic`; its coordinator's partition is offline."""
    assert TxnProducer(world.client, OLD, HEALTHY).send("topic") == 0
    producer = TxnProducer(world.client, OLD, BROKEN)
    assert producer.send("topic") == 0
    world.disk.broken_directory, world.disk.sync_error = "__transaction_state", errno.EIO
    assert producer.add("other") == {("other", 0): UNAVAILABLE}
    world.disk.sync_error = 0
    return producer


def add_offsets(producer: TxnProducer) -> int:
    request = AddOffsetsToTxnRequest(
        transactional_id=producer.name,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        group_id="group",
    )
    code: int = producer.client.call(request, 3).error_code
    return code


TRANSACTION_REQUESTS: dict[str, Callable[[World, TxnProducer], int]] = {
    "find": lambda world, _: world.find(BROKEN, TRANSACTIONAL_ID_TYPE),
    "init": lambda world, _: (
        world.call(InitProducerIdRequest(transactional_id=BROKEN, transaction_timeout_ms=60_000), 5).error_code
    ),
    "add": lambda _, producer: producer.add("topic")["topic", 0],
    "add-more": lambda _, producer: producer.add("other")["other", 0],
    "add-offsets": lambda _, producer: add_offsets(producer),
    "end": lambda _, producer: producer.end(),
    "describe": lambda world, _: (
        world.call(DescribeTransactionsRequest(transactional_ids=[BROKEN]), 0).transaction_states[0].error_code
    ),
}


@pytest.mark.parametrize("ask", TRANSACTION_REQUESTS.values(), ids=TRANSACTION_REQUESTS)
def test_requests_of_a_producer_whose_coordinators_partition_is_offline(
    world: World, producer: TxnProducer, ask: Callable[[World, TxnProducer], int]
) -> None:
    assert [ask(world, producer), ask(world, producer)] == [UNAVAILABLE, UNAVAILABLE]
    assert TxnProducer(world.client, OLD, HEALTHY).send("other") == 0


@pytest.mark.parametrize("version", [11, 12])
def test_a_write_that_cannot_be_verified_is_to_be_repeated(world: World, producer: TxnProducer, version: int) -> None:
    codes = [producer.produce("other", producer.batch("other"), version) for _ in range(2)]
    assert codes == [ErrorCode.NOT_ENOUGH_REPLICAS] * 2


def test_other_transactions_are_listed(world: World, producer: TxnProducer) -> None:
    listed = world.call(ListTransactionsRequest(), 1)
    names = [transaction.transactional_id for transaction in listed.transaction_states]
    assert (listed.error_code, names) == (0, [HEALTHY])


@pytest.mark.parametrize("generation", [OLD, NEW], ids=["v1", "v2"])
def test_an_end_that_waits_for_markers_is_told_that_its_decision_is_not_safe(world: World, generation: int) -> None:
    producer = TxnProducer(world.client, generation, BROKEN)
    assert producer.send("topic") == 0
    world.disk.broken_directory, world.disk.sync_error = "__transaction_state", errno.EIO
    assert producer.end() == UNAVAILABLE


@pytest.mark.parametrize("position", [16, 61], ids=["batch", "record"])
def test_a_coordinator_that_cannot_read_its_log(start_broker: StartBroker, error_log: ErrorLog, position: int) -> None:
    disk = FaultyDisk()
    broker = start_broker(SETTINGS, disk=disk)
    with RawClient(broker.port) as client:
        world = World(broker, disk, client)
        for group in (HEALTHY, BROKEN):
            assert world.find(group) == 0
            assert world.commit(group) == 0
        path = broker.data_dir / "__consumer_offsets-1" / f"{0:020}.log"
        with path.open("r+b") as file:
            file.seek(position)
            file.write(b"\xff")
        # The coordinator reads its log again after a write that failed.
        disk.broken_directory, disk.write_error = "__consumer_offsets", errno.ENOSPC
        assert world.commit(BROKEN) == UNAVAILABLE
        disk.write_error = 0
        asked = [world.call(heartbeat(BROKEN, "member", 1), 4).error_code for _ in range(2)]
        assert asked == [UNAVAILABLE, UNAVAILABLE]
        assert world.commit(HEALTHY) == 0
    broker.stop()
    assert any("the coordinator cannot read its log" in line for line in error_log.lines)
    error_log.lines.clear()
