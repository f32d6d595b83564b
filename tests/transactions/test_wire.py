"""Transactions request by request, where no stock client shows what the broker said: coordinators, versions and their
error codes, offsets, and the list of aborted transactions that comes with a fetch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from oncelog.broker.handlers import txn_offset_commit
from oncelog.broker.requests.context import RequestContext
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from oncelog.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from oncelog.protocol.messages.find_coordinator import FindCoordinatorRequest
from oncelog.protocol.messages.init_producer_id import InitProducerIdRequest
from oncelog.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from oncelog.protocol.records.batch import iter_headers
from oncelog.testing import Broker
from tests.bad_input.raw import RawClient
from tests.bad_input.requests import batch, create_topic, fetch, list_offsets, offsets_of, produce, record
from tests.transactions.direct_client import Connection
from tests.transactions.wire_producer import INIT, NEW, OLD, TRANSACTIONAL_ID_TYPE, TxnProducer, port_of

Unique = Callable[[str], str]

FETCH, OFFSETS = 12, 9
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
generations = pytest.mark.parametrize("generation", [OLD, NEW], ids=["v1", "v2"])


@pytest.fixture
def client(broker: Broker) -> Iterator[RawClient]:
    with RawClient(port_of(broker)) as client:
        yield client


@pytest.fixture
def topic(client: RawClient, unique: Unique) -> str:
    """With one partition."""
    name = unique("wire")
    create_topic(client, name)
    return name


def test_producer_ids_are_not_used_again_after_a_kill() -> None:
    given: list[int] = []
    with Broker(subprocess=True) as broker:
        for _ in range(3):
            with RawClient(port_of(broker)) as client:
                for _ in range(3):
                    answer = client.call(InitProducerIdRequest(transactional_id=None), INIT)
                    assert (answer.error_code, answer.producer_epoch) == (0, 0)
                    given.append(answer.producer_id)
            broker.kill()
            broker.start()
    assert given == sorted(set(given))


def test_coordinators_of_transactional_ids_one_by_one_and_together(broker: Broker, client: RawClient) -> None:
    names = ["a", "b", ""]
    for version in range(1, 4):
        found = client.call(FindCoordinatorRequest(key="a", key_type=TRANSACTIONAL_ID_TYPE), version)
        assert (found.error_code, found.port) == (0, port_of(broker))
    for version in range(4, 7):
        request = FindCoordinatorRequest(coordinator_keys=names, key_type=TRANSACTIONAL_ID_TYPE)
        found = client.call(request, version).coordinators
        assert [(each.key, each.error_code) for each in found[:2]] == [("a", 0), ("b", 0)]
        assert {each.port for each in found[:2]} == {port_of(broker)}


def ask_as_a_broker(client: RawClient, producer: TxnProducer, topic: str, version: int, *, verify_only: bool) -> int:
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=producer.name,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        verify_only=verify_only,
        topics=[AddPartitionsToTxnTopic(name=topic, partitions=[0])],
    )
    answer = client.call(AddPartitionsToTxnRequest(transactions=[transaction]), version)
    assert answer.error_code == 0
    ((result,),) = [[*each.results_by_partition] for each in answer.results_by_transaction[0].topic_results]
    code: int = result.partition_error_code
    return code


@pytest.mark.parametrize("version", [4, 5])
def test_brokers_verify_and_add_partitions(client: RawClient, topic: str, version: int) -> None:
    producer = TxnProducer(client, NEW)
    unknown = ask_as_a_broker(client, producer, topic, version, verify_only=True)
    assert unknown == ErrorCode.TRANSACTION_ABORTABLE
    assert producer.state() == ("Empty", set())
    assert ask_as_a_broker(client, producer, topic, version, verify_only=False) == 0
    assert ask_as_a_broker(client, producer, topic, version, verify_only=True) == 0
    assert producer.state() == ("Ongoing", {(topic, 0)})
    assert producer.end(False) == 0


def test_a_fenced_producer_is_told_so_in_the_words_of_its_version(client: RawClient, topic: str) -> None:
    """The coordinator says PRODUCER_FENCED to those who know it; a partition never does."""
    zombie = TxnProducer(client, OLD)
    assert zombie.send(topic) == 0
    TxnProducer(client, OLD, zombie.name)
    fenced, invalid = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH
    identity: dict[str, Any] = {
        "transactional_id": zombie.name,
        "producer_id": zombie.producer_id,
        "producer_epoch": zombie.epoch,
    }
    for version in (3, 4, 5):
        answer = client.call(InitProducerIdRequest(**identity, transaction_timeout_ms=60_000), version)
        assert answer.error_code == (fenced if version >= 4 else invalid)
    for version in range(4):
        answer = client.call(zombie.add_request(topic), version)
        (code,) = [part.partition_error_code for part in answer.results_by_topic_v3_and_below[0].results_by_partition]
        assert code == (fenced if version >= 2 else invalid)
    for version in range(5):
        answer = client.call(AddOffsetsToTxnRequest(**identity, group_id="g"), version)
        assert answer.error_code == (fenced if version >= 2 else invalid)
    for version in range(5):
        assert zombie.end(version=version) == (fenced if version >= 2 else invalid)
    for version in (3, 9, 11, 12):
        assert zombie.produce(topic, zombie.batch(topic), version) == invalid


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (0, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (5, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
def test_old_clients_do_not_hear_that_a_coordinator_loads(version: int, code: ErrorCode) -> None:
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    request = TxnOffsetCommitRequest(topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[partition])])
    services: Any = None
    context = RequestContext(services, version, "test", Connection())
    answer = txn_offset_commit.error_reply(request, KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), context)
    assert answer.topics[0].partitions[0].error_code == code


def fetched(client: RawClient, topic: str, level: int, offset: int = 0, **options: Any) -> Any:
    (part,) = client.call(fetch(topic, offset, isolation_level=level, **options), FETCH).responses[0].partitions
    assert part.error_code == 0
    return part


@generations
def test_the_aborted_list_of_a_fetch(client: RawClient, topic: str, generation: int) -> None:
    """Sorted by first offset, complete for what is returned, without empty transactions, and for read_committed only;
    control batches come along."""
    first, second = TxnProducer(client, generation), TxnProducer(client, generation)
    assert first.send(topic) == 0
    assert second.send(topic) == 0
    assert second.end(False) == 0
    assert first.end(False) == 0
    assert second.end(False) == 0
    assert first.send(topic) == 0
    assert first.end(True) == 0
    committed = fetched(client, topic, READ_COMMITTED)
    aborted = [(txn.producer_id, txn.first_offset) for txn in committed.aborted_transactions]
    assert aborted == [(first.producer_id, 0), (second.producer_id, 1)]
    kinds = [header.is_control for _, header in iter_headers(memoryview(committed.records))]
    assert kinds == [False, False, True, True, False, True]
    assert fetched(client, topic, READ_COMMITTED, offset=4).aborted_transactions == []
    uncommitted = fetched(client, topic, READ_UNCOMMITTED)
    assert uncommitted.aborted_transactions is None
    assert bytes(uncommitted.records) == bytes(committed.records)


@generations
def test_a_fetch_that_waited_has_the_aborted_list_too(
    broker: Broker, client: RawClient, topic: str, generation: int
) -> None:
    producer = TxnProducer(client, generation)
    assert producer.send(topic) == 0
    with RawClient(port_of(broker)) as reader:
        request = fetch(topic, 0, isolation_level=READ_COMMITTED, max_wait_ms=20_000)
        waiting = reader.send(request, FETCH)
        assert producer.end(False) == 0
        (part,) = reader.read_answer(request, FETCH, waiting).responses[0].partitions
    assert [(txn.producer_id, txn.first_offset) for txn in part.aborted_transactions] == [(producer.producer_id, 0)]
    assert len(list(iter_headers(memoryview(part.records)))) == 2


@generations
def test_list_offsets_by_isolation_level_and_by_every_meaning(client: RawClient, topic: str, generation: int) -> None:
    latest, earliest, largest, local, tiered = -1, -2, -3, -4, -5
    client.call(produce(topic, batch(record(timestamp=1000), record(timestamp=3000), record(timestamp=2000))), 12)
    producer = TxnProducer(client, generation)
    assert producer.send(topic, record(timestamp=5000)) == 0

    def asked(timestamp: int, level: int) -> int:
        request = list_offsets(topic, timestamp, isolation_level=level)
        ((code, offset),) = offsets_of(client.call(request, OFFSETS))
        assert code == 0
        return offset

    assert (asked(latest, READ_UNCOMMITTED), asked(latest, READ_COMMITTED)) == (4, 3)
    for level in (READ_UNCOMMITTED, READ_COMMITTED):
        assert [asked(each, level) for each in (earliest, local)] == [0, 0]
        assert asked(tiered, level) == -1
        assert [asked(timestamp, level) for timestamp in (0, 1500, 2500)] == [0, 1, 1]
    assert (asked(4000, READ_UNCOMMITTED), asked(4000, READ_COMMITTED)) == (3, -1)
    assert asked(largest, READ_UNCOMMITTED) == 3
    assert producer.end(True) == 0
    assert (asked(latest, READ_UNCOMMITTED), asked(latest, READ_COMMITTED)) == (5, 5)
    assert asked(4000, READ_COMMITTED) == 3
