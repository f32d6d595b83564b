"""Rows 32, 44 and 57-61: requests that do not belong to the transaction they claim, at the partition and at the
coordinator. What has nothing to do with the transaction leaves it as it was."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from oncelog.protocol.messages.describe_transactions import DescribeTransactionsRequest
from oncelog.protocol.messages.init_producer_id import InitProducerIdRequest
from oncelog.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from oncelog.protocol.records.batch import iter_headers
from tests.bad_input.conftest import ErrorLog, StartBroker, Target
from tests.bad_input.faulty_disk import FaultyDisk
from tests.bad_input.live import LiveBroker
from tests.bad_input.raw import RawClient, wait_until
from tests.bad_input.requests import (
    batch,
    create_topic,
    end_offset,
    list_offsets,
    offsets_of,
    produce,
    produce_codes,
    record,
)
from tests.transactions.wire_producer import END, NEW, OLD, TxnProducer

MARKERS, OFFSETS = 1, 8
READ_COMMITTED = 1

generations = pytest.mark.parametrize("generation", [OLD, NEW], ids=["v1", "v2"])


def stable_end(client: RawClient, topic: str) -> int:
    request = list_offsets(topic, isolation_level=READ_COMMITTED)
    ((code, offset),) = offsets_of(client.call(request, OFFSETS))
    assert code == 0
    return offset


@generations
def test_a_marker_that_a_client_makes_itself(client: RawClient, target: Target, generation: int) -> None:
    """Row 32: not even within its own transaction, of which nothing changes."""
    producer = TxnProducer(client, generation)
    assert producer.send(target.name) == 0
    forged = producer.batch(target.name, control=True)
    assert producer.produce(target.name, forged) == ErrorCode.INVALID_RECORD
    marker = batch(record(bytes(6), bytes(4)), control=True, producer_id=producer.producer_id, base_sequence=1)
    assert producer.produce(target.name, marker) == ErrorCode.INVALID_RECORD
    assert producer.state() == ("Ongoing", {(target.name, 0)})
    assert stable_end(client, target.name) == 0
    assert producer.end() == 0
    target.written = 2


@generations
def test_a_plain_write_of_a_producer_with_an_open_transaction(
    client: RawClient, target: Target, generation: int
) -> None:
    """Row 44, first part."""
    producer = TxnProducer(client, generation)
    assert producer.send(target.name) == 0
    plain = producer.batch(target.name, transactional=False)
    for version in (3, 9, 12):
        answer = client.call(produce(target.name, plain), version)
        assert produce_codes(answer) == [ErrorCode.INVALID_TXN_STATE]
    assert producer.send(target.name) == 0
    assert producer.end() == 0
    target.written = 3


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (3, ErrorCode.INVALID_TXN_STATE),
        (10, ErrorCode.INVALID_TXN_STATE),
        (11, ErrorCode.TRANSACTION_ABORTABLE),
    ],
)
def test_a_write_to_a_partition_that_is_not_in_the_transaction(
    client: RawClient, target: Target, version: int, code: ErrorCode
) -> None:
    """Row 44, second part: with no transaction open, and with one that has other partitions."""
    producer = TxnProducer(client)
    assert producer.produce(target.name, producer.batch(target.name), version) == code
    other = f"{target.name}-other"
    create_topic(client, other)
    assert producer.send(other) == 0
    assert producer.produce(target.name, producer.batch(target.name), version) == code
    assert producer.state() == ("Ongoing", {(other, 0)})
    assert producer.end() == 0


@pytest.mark.parametrize("version", [3, 11, 12])
def test_a_transactional_write_of_nobody(client: RawClient, target: Target, version: int) -> None:
    producer = TxnProducer(client)
    producer.name = "nobody-uses-this-id"
    assert producer.produce(target.name, producer.batch(target.name), version) == ErrorCode.INVALID_PRODUCER_ID_MAPPING


IDENTITIES: list[dict[str, Any]] = [
    {"transactional_id": None, "producer_id": 5},
    {"transactional_id": None, "producer_epoch": 5},
    {"transactional_id": None, "producer_id": -5, "producer_epoch": 5},
    {"transactional_id": None, "producer_id": 5, "producer_epoch": -5},
    {"producer_id": 5},
    {"producer_epoch": 5},
]
"""The fields of a producer that has an identity already came with version 3."""


@pytest.mark.parametrize(
    ("version", "fields", "code"),
    [
        *((version, fields, ErrorCode.INVALID_REQUEST) for version in (3, 4, 5) for fields in IDENTITIES),
        *((version, {"transactional_id": ""}, ErrorCode.INVALID_REQUEST) for version in range(6)),
        *(
            (version, {"transaction_timeout_ms": timeout_ms}, ErrorCode.INVALID_TRANSACTION_TIMEOUT)
            for version in range(6)
            for timeout_ms in (0, -1, 900_001, 2**31 - 1)
        ),
    ],
)
def test_init_producer_id(client: RawClient, version: int, fields: dict[str, Any], code: ErrorCode) -> None:
    """Row 57."""
    TxnProducer(client, name="row-57")
    request = InitProducerIdRequest(**{"transactional_id": "row-57", "transaction_timeout_ms": 60_000, **fields})
    response = client.call(request, version)
    assert (response.error_code, response.producer_id, response.producer_epoch) == (code, -1, -1)


@pytest.mark.parametrize("version", range(6))
def test_an_end_by_whom_the_transaction_does_not_belong_to(client: RawClient, target: Target, version: int) -> None:
    """Row 58: unknown names, another's producer id, epochs that are over or not yet given."""
    producer = TxnProducer(client, NEW if version == 5 else OLD)
    assert producer.send(target.name) == 0
    fenced = ErrorCode.PRODUCER_FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
    for commit in (True, False):
        unknown = producer.end(commit, version=version, transactional_id="nobody-uses-this-id")
        assert unknown == ErrorCode.INVALID_PRODUCER_ID_MAPPING
        other = producer.end(commit, version=version, producer_id=producer.producer_id + 100_000)
        assert other == ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert producer.end(commit, version=version, transactional_id="") == ErrorCode.INVALID_REQUEST
        for epoch in (producer.epoch - 1, producer.epoch + 1, -32768, 32767):
            assert producer.end(commit, version=version, producer_epoch=epoch) == fenced
    assert producer.state() == ("Ongoing", {(target.name, 0)})
    assert producer.end(version=version) == 0
    target.written = 2


@pytest.mark.parametrize("version", range(5))
def test_an_end_of_what_is_not_open_or_ended_otherwise(client: RawClient, target: Target, version: int) -> None:
    """Row 58: the state is Empty, or the opposite was decided."""
    producer = TxnProducer(client)
    for commit in (True, False):
        assert producer.end(commit, version=version) == ErrorCode.INVALID_TXN_STATE
    for commit in (True, False):
        assert producer.send(target.name) == 0
        assert producer.end(commit, version=version) == 0
        assert producer.end(not commit, version=version) == ErrorCode.INVALID_TXN_STATE
        assert producer.end(commit, version=version) == 0
    target.written = 4


def test_an_end_of_what_is_not_open_or_ended_otherwise_with_an_epoch_for_each(
    client: RawClient, target: Target
) -> None:
    """As above for version 2, which alone may abort nothing: it cannot know whether it has added a partition."""
    producer = TxnProducer(client, NEW)
    assert producer.end(True) == ErrorCode.INVALID_TXN_STATE
    assert producer.end(False) == 0
    for commit in (True, False):
        assert producer.send(target.name) == 0
        before = producer.epoch
        assert producer.end(commit) == 0
        opposite = producer.end_request(not commit, producer_epoch=before)
        assert client.call(opposite, 5).error_code == ErrorCode.INVALID_TXN_STATE
        again = client.call(producer.end_request(commit, producer_epoch=before), 5)
        assert (again.error_code, again.producer_epoch) == (0, producer.epoch)
        assert producer.end(True) == ErrorCode.INVALID_TXN_STATE
    target.written = 4


@pytest.fixture
def stubborn(start_broker: StartBroker) -> Iterator[tuple[LiveBroker, FaultyDisk]]:
    """A broker with a disk that can keep the topic `stuck` from taking its marker."""
    disk = FaultyDisk()
    disk.broken_directory = "stuck"
    broker = start_broker({"transaction.state.log.num.partitions": "1"}, disk=disk)
    yield broker, disk
    disk.write_error = 0


@generations
@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_requests_while_the_end_is_under_way(
    stubborn: tuple[LiveBroker, FaultyDisk], generation: int, commit: bool
) -> None:
    """Row 58, Prepare*: the opposite is refused, the same waits for the markers and takes the place of the request
    that waited before it, which is told to come again; and nothing can be added."""
    broker, disk = stubborn
    with RawClient(broker.port) as first, RawClient(broker.port) as second:
        create_topic(first, "stuck")
        producer = TxnProducer(first, generation)
        assert producer.send("stuck") == 0
        disk.write_error = errno.ENOSPC
        end = producer.end_request(commit)
        waiting = first.send(end, END[generation])
        wait_until(lambda: _state(second, producer.name) in ("PrepareCommit", "PrepareAbort"), "it is decided")
        opposite = second.call(producer.end_request(not commit), END[generation])
        assert opposite.error_code == ErrorCode.INVALID_TXN_STATE
        if generation == OLD:
            assert producer.add("stuck", client=second) == {("stuck", 0): ErrorCode.CONCURRENT_TRANSACTIONS}
        retried = second.send(end, END[generation])
        replaced = first.read_answer(end, END[generation], waiting)
        assert replaced.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        disk.write_error = 0
        assert second.read_answer(end, END[generation], retried).error_code == 0
        assert stable_end(second, "stuck") == 2


def _state(client: RawClient, name: str) -> str:
    (described,) = client.call(DescribeTransactionsRequest(transactional_ids=[name]), 0).transaction_states
    state: str = described.transaction_state
    return state


@generations
@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_an_end_that_arrives_in_the_next_transaction(
    broker: LiveBroker, client: RawClient, target: Target, generation: int, commit: bool
) -> None:
    """Row 59 (KAFKA-17754): version 2 is known by its epoch; version 1 by its connection, which is an older one than
    the producer uses now."""
    producer = TxnProducer(client, generation)
    assert producer.send(target.name) == 0
    late = producer.end_request(commit)
    with RawClient(broker.port) as newer:
        producer.client = newer
        assert producer.end(True) == 0
        assert producer.send(target.name) == 0
        for version in (END[generation], 2 if generation == OLD else 5):
            assert client.call(late, version).error_code == ErrorCode.PRODUCER_FENCED
        if generation == OLD:
            assert client.call(late, 1).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
            assert producer.add(target.name, client=client) == {(target.name, 0): ErrorCode.PRODUCER_FENCED}
        assert producer.state() == ("Ongoing", {(target.name, 0)})
        assert producer.end(False) == 0
    target.written = 4


def test_a_late_end_is_known_after_the_coordinator_had_to_start_anew(
    start_broker: StartBroker, error_log: ErrorLog
) -> None:
    """Row 59: its disk failed, it reads its log again, and the connections are still those of before."""
    disk = FaultyDisk()
    disk.broken_directory = "__transaction_state"
    broker = start_broker({"transaction.state.log.num.partitions": "1"}, disk=disk)
    with RawClient(broker.port) as older, RawClient(broker.port) as newer:
        for topic in ("a", "b"):
            create_topic(older, topic)
        producer = TxnProducer(older, OLD)
        assert producer.send("a") == 0
        late = producer.end_request(True)
        producer.client = newer
        assert producer.end(True) == 0
        assert producer.send("a") == 0
        disk.write_error = errno.ENOSPC
        assert producer.add("b") == {("b", 0): ErrorCode.COORDINATOR_NOT_AVAILABLE}
        disk.write_error = 0
        assert older.call(late, END[OLD]).error_code == ErrorCode.PRODUCER_FENCED
        assert producer.state() == ("Ongoing", {("a", 0)})
        assert producer.end(False) == 0
    assert any("the coordinator starts anew" in line for line in error_log.lines)
    error_log.lines.clear()


def test_a_bad_topic_among_the_partitions_to_add(client: RawClient, target: Target) -> None:
    """Row 60: the bad one is told so, the others that they were not tried, and nothing is added."""
    producer = TxnProducer(client)
    bad = {
        ("nowhere", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("__transaction_state", 0): ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ("../x", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    for (topic, _), code in bad.items():
        assert producer.add(target.name, topic) == {
            (target.name, 0): ErrorCode.OPERATION_NOT_ATTEMPTED,
            (topic, 0): code,
        }
    assert producer.add(target.name, partitions=(0, 1, -1, 2**31 - 1)) == {
        (target.name, 0): ErrorCode.OPERATION_NOT_ATTEMPTED,
        **dict.fromkeys(((target.name, index) for index in (1, -1, 2**31 - 1)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    }
    assert producer.state() == ("Empty", set())


def marker_request(producer: TxnProducer, topic: str, **changes: Any) -> WriteTxnMarkersRequest:
    fields: dict[str, Any] = {
        "producer_id": producer.producer_id,
        "producer_epoch": producer.epoch,
        "transaction_result": False,
        "coordinator_epoch": 0,
        "topics": [WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
    }
    return WriteTxnMarkersRequest(markers=[WritableTxnMarker(**fields | changes)])


def marker_code(client: RawClient, request: WriteTxnMarkersRequest, version: int = MARKERS) -> int:
    (marker,) = client.call(request, version).markers
    code: int = marker.topics[0].partitions[0].error_code
    return code


def test_markers_of_a_coordinator_that_was_replaced(start_broker: StartBroker) -> None:
    """Row 61: its epoch is below the one that last ended a transaction of this producer here."""
    broker = start_broker()
    with RawClient(broker.port) as client:
        create_topic(client, "topic")
        producer = TxnProducer(client)
        assert producer.send("topic") == 0
        assert marker_code(client, marker_request(producer, "topic", coordinator_epoch=3)) == 0
        for version in (1, 2):
            stale = marker_request(producer, "topic", coordinator_epoch=2)
            assert marker_code(client, stale, version) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
        assert stable_end(client, "topic") == end_offset(client, "topic") == 2


MEANINGLESS: list[tuple[dict[str, Any], ErrorCode]] = [
    ({"producer_id": -1}, ErrorCode.UNKNOWN_SERVER_ERROR),
    ({"producer_epoch": -1}, ErrorCode.UNKNOWN_SERVER_ERROR),
    ({"producer_epoch": -(2**15)}, ErrorCode.INVALID_PRODUCER_EPOCH),
    ({"coordinator_epoch": -(2**31)}, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
]


@pytest.mark.parametrize(
    ("version", "changes", "code"),
    [
        *((version, *values) for version in (1, 2) for values in MEANINGLESS),
        (2, {"transaction_version": -1}, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_markers_that_no_coordinator_can_mean(
    client: RawClient, target: Target, version: int, changes: dict[str, Any], code: ErrorCode
) -> None:
    """As Kafka answers them, for a producer that the partition does not know."""
    producer = TxnProducer(client)
    assert marker_code(client, marker_request(producer, target.name, **changes), version) == code
    elsewhere = marker_request(producer, "nowhere", **changes)
    expected = code if changes.get("producer_id") == -1 or changes.get("producer_epoch") == -1 else 3
    assert marker_code(client, elsewhere, version) == expected


COORDINATORS_LOG = "__transaction_state"


def forged_marker(_: LiveBroker, producer: TxnProducer) -> None:
    assert marker_code(producer.client, marker_request(producer, COORDINATORS_LOG)) == ErrorCode.INVALID_TOPIC_EXCEPTION


def added_as_by_a_broker(_: LiveBroker, producer: TxnProducer) -> None:
    """Kafka, too, lets brokers add what clients may not."""
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=producer.name,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        topics=[AddPartitionsToTxnTopic(name=COORDINATORS_LOG, partitions=[0])],
    )
    (added,) = producer.client.call(AddPartitionsToTxnRequest(transactions=[transaction]), 5).results_by_transaction
    assert added.topic_results[0].results_by_partition[0].partition_error_code == 0
    assert producer.end() == 0


def written_to(_: LiveBroker, producer: TxnProducer) -> None:
    refused = producer.produce(COORDINATORS_LOG, producer.batch(COORDINATORS_LOG))
    assert refused == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert producer.end() == 0


def marked_by_another_broker(broker: LiveBroker, producer: TxnProducer) -> None:
    """Kafka takes such markers, so the directory that it leaves may have them."""
    log = broker.partition(COORDINATORS_LOG)
    broker.on_loop(
        lambda: log.append_marker(
            producer.producer_id, producer.epoch, commit=True, coordinator_epoch=0, version=2, now_ms=0
        )
    )


@pytest.mark.parametrize(
    ("mark", "marked"),
    [(forged_marker, 0), (added_as_by_a_broker, 0), (written_to, 0), (marked_by_another_broker, 1)],
)
def test_a_marker_in_the_log_of_the_coordinators(
    start_broker: StartBroker, mark: Callable[[LiveBroker, TxnProducer], None], marked: int
) -> None:
    """It would say nothing there, and Kafka cannot read what follows it."""
    broker = start_broker({"transaction.state.log.num.partitions": "1"})
    with RawClient(broker.port) as client:
        mark(broker, TxnProducer(client, NEW, "x"))
    broker.stop()
    log = broker.data_dir / f"{COORDINATORS_LOG}-0" / f"{0:020}.log"
    assert sum(header.is_control for _, header in iter_headers(log.read_bytes())) == marked
    again = start_broker(data_dir=broker.data_dir)
    with RawClient(again.port) as client:
        assert TxnProducer(client, NEW, "x").epoch > 0
