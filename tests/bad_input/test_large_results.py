"""What a coordinator has to write at once may be more than a batch may have: it is divided, or refused, and in either
case it concerns nobody else."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from oncelog.protocol.messages.delete_groups import DeleteGroupsRequest
from oncelog.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from oncelog.protocol.messages.find_coordinator import FindCoordinatorRequest
from oncelog.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from oncelog.protocol.messages.init_producer_id import InitProducerIdRequest
from oncelog.protocol.messages.join_group import JoinGroupRequestProtocol
from oncelog.protocol.messages.list_groups import ListGroupsRequest
from oncelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from oncelog.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from oncelog.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.bad_input.conftest import ErrorLog, StartBroker
from tests.bad_input.live import LiveBroker
from tests.bad_input.raw import RawClient, wait_until
from tests.bad_input.requests import create_topic
from tests.bad_input.test_groups import join
from tests.transactions.wire_producer import NEW, OLD, TxnProducer

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


# -- refused ---------------------------------------------------------------------------------------------------

LARGE = 3 * BATCH_BYTES_MAX


def large_heartbeat(client: RawClient) -> int:
    names = [f"{number:0100}" for number in range(LARGE // 100)]
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="m",
        rebalance_timeout_ms=1000,
        subscribed_topic_names=names,
        topic_partitions=[],
    )
    code: int = client.call(request, 1).error_code
    return code


def large_metadata(client: RawClient) -> int:
    request = join(GROUP, protocols=[JoinGroupRequestProtocol(name="range", metadata=bytes(LARGE))])
    code: int = client.call(request, 9).error_code
    return code


def large_protocol_type(client: RawClient) -> int:
    code: int = client.call(join(GROUP, protocol_type="p" * LARGE), 9).error_code
    return code


def large_group_id(client: RawClient) -> int:
    code: int = client.call(join("g" * LARGE), 9).error_code
    return code


def large_group_id_of_a_commit(client: RawClient) -> int:
    entry = OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
    topics = [OffsetCommitRequestTopic(name=TOPIC, partitions=[entry])]
    answer = client.call(OffsetCommitRequest(group_id="g" * LARGE, topics=topics), 9)
    code: int = answer.topics[0].partitions[0].error_code
    return code


def large_transactional_id(client: RawClient) -> int:
    assert client.call(FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]), 6).coordinators[0].error_code == 0
    request = InitProducerIdRequest(transactional_id="x" * LARGE, transaction_timeout_ms=1000)
    code: int = client.call(request, 5).error_code
    return code


def large_transaction(client: RawClient) -> int:
    producer = TxnProducer(client, OLD, "x" * (BATCH_BYTES_MAX - 450))
    (code,) = set(producer.add(TOPIC, partitions=tuple(range(PARTITIONS))).values())
    assert producer.add(TOPIC) == {(TOPIC, 0): 0}
    assert producer.end() == 0
    return code


REFUSALS = {
    large_heartbeat: ErrorCode.UNKNOWN_SERVER_ERROR,
    large_metadata: ErrorCode.GROUP_MAX_SIZE_REACHED,
    large_protocol_type: ErrorCode.GROUP_MAX_SIZE_REACHED,
    large_group_id: ErrorCode.UNKNOWN_SERVER_ERROR,
    large_group_id_of_a_commit: ErrorCode.UNKNOWN_SERVER_ERROR,
    large_transactional_id: ErrorCode.UNKNOWN_SERVER_ERROR,
    large_transaction: ErrorCode.UNKNOWN_SERVER_ERROR,
}


@pytest.mark.parametrize("request_", REFUSALS, ids=lambda function: function.__name__)
def test_a_record_that_is_too_large_is_one_clients_error(world: World, request_: Callable[[RawClient], int]) -> None:
    groups = world.groups()
    assert request_(world.client) == REFUSALS[request_]
    assert world.groups() == groups


def test_an_assignment_that_is_too_large_is_the_leaders_error(world: World) -> None:
    with RawClient(world.broker.port) as client:
        request = join(GROUP, member_id=client.call(join(GROUP), 9).member_id, session_timeout_ms=3 * DELAY_MS)
        sent = client.send(request, 9)
        wait_until(lambda: world.groups().get(GROUP) == "PreparingRebalance", "the member waits")
        world.advance(DELAY_MS)
        joined = client.read_answer(request, 9, sent)
        member = {"group_id": GROUP, "member_id": joined.member_id, "generation_id": joined.generation_id}
        for size, code in ((LARGE, ErrorCode.UNKNOWN_SERVER_ERROR), (10, ErrorCode.NONE)):
            assignments = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=bytes(size))]
            sync = SyncGroupRequest(**member, protocol_type="consumer", protocol_name="range", assignments=assignments)
            assert client.call(sync, 5).error_code == code


def test_a_lowered_limit_holds_up_the_end_of_a_transaction_until_it_is_raised(
    start_broker: StartBroker, error_log: ErrorLog
) -> None:
    """Nobody can be refused here: the coordinator loads itself anew, and tries again."""
    broker = start_broker({"transaction.state.log.num.partitions": "1"})
    with RawClient(broker.port) as client:
        create_topic(client, TOPIC)
        producer = TxnProducer(client, OLD, timeout_ms=60_000)
        assert producer.add(TOPIC) == {(TOPIC, 0): 0}
        set_config(client, "__transaction_state", "max.message.bytes", "10")
        broker.on_loop(lambda: broker.app.services.clock.advance(60_000))
        assert [line for line in error_log.lines if "the coordinator starts anew" in line]
        error_log.lines.clear()
        set_config(client, "__transaction_state", "max.message.bytes", "10000")
        wait_until(lambda: producer.state()[0] == "Ongoing", "the coordinator is loaded")
        broker.on_loop(lambda: broker.app.services.clock.advance(60_000))
        wait_until(lambda: producer.state()[0] == "CompleteAbort", "the transaction has ended")


def set_config(client: RawClient, topic: str, name: str, value: str) -> None:
    config = AlterableConfig(name=name, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=2, resource_name=topic, configs=[config])
    (changed,) = client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    assert changed.error_code == 0
