"""Rows 47-52: reads of what is not there, and readers who ask for too much."""

from __future__ import annotations

import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from oncelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from oncelog.protocol.messages.list_offsets import ListOffsetsPartition
from oncelog.protocol.records.batch import iter_headers
from tests.bad_input.conftest import StartBroker, Target
from tests.bad_input.live import LiveBroker
from tests.bad_input.raw import RawClient, wait_until
from tests.bad_input.requests import (
    FETCH_VERSION,
    INT32_MAX,
    LIST_OFFSETS_VERSION,
    PRODUCE_VERSION,
    batch,
    create_topic,
    fetch,
    fetch_codes,
    list_offsets,
    offsets_of,
    produce,
    produce_codes,
    record,
)

ALL_VERSIONS = range(4, 19)
SESSION_VERSIONS = (7, 12, 13, 18)


@pytest.fixture
def filled(client: RawClient, target: Target) -> Target:
    """Five batches of one record."""
    for _ in range(5):
        assert produce_codes(client.call(produce(target.name, batch(record(bytes(1000)))), PRODUCE_VERSION)) == [0]
    target.written = 5
    return target


def fetched(client: RawClient, target: Target, offset: int = 0, version: int = FETCH_VERSION, **options: Any) -> Any:
    """The one partition of the answer."""
    response = client.call(fetch(target.name, offset, topic_id=target.id, **options), version)
    (topic,) = response.responses
    (partition,) = topic.partitions
    return partition


def batch_count(partition: Any) -> int:
    return sum(1 for _ in iter_headers(partition.records or b""))


@pytest.mark.parametrize("version", ALL_VERSIONS)
@pytest.mark.parametrize("offset", [-1, 6, 2**63 - 1, -(2**63)])
def test_an_offset_outside_of_the_log(client: RawClient, filled: Target, version: int, offset: int) -> None:
    assert fetched(client, filled, offset, version).error_code == 1
    assert fetched(client, filled, 5, version).error_code == 0


@pytest.mark.parametrize("version", [4, 12, 13, 18])
@pytest.mark.parametrize("max_bytes", [0, -1, 1, -(2**31), INT32_MAX])
@pytest.mark.parametrize("partition_max_bytes", [0, -1, 1, INT32_MAX])
def test_size_limits_of_any_kind_give_at_least_one_batch(
    client: RawClient, filled: Target, version: int, max_bytes: int, partition_max_bytes: int
) -> None:
    part = fetched(client, filled, 0, version, max_bytes=max_bytes, partition_max_bytes=partition_max_bytes)
    unlimited = max_bytes == partition_max_bytes == INT32_MAX
    assert (part.error_code, batch_count(part)) == (0, 5 if unlimited else 1)


def test_an_answer_is_never_larger_than_fetch_max_bytes(start_broker: StartBroker) -> None:
    broker = start_broker({"fetch.max.bytes": "1048576"})
    with RawClient(broker.port) as client:
        create_topic(client, "large", max_message_bytes="3000000")
        for size_bytes in (100_000,) * 20:
            client.call(produce("large", batch(record(bytes(size_bytes)))), PRODUCE_VERSION)
        (part,) = (
            client.call(fetch("large", max_bytes=INT32_MAX, partition_max_bytes=INT32_MAX), FETCH_VERSION)
            .responses[0]
            .partitions
        )
        assert 0 < len(part.records) <= 1_048_576
        client.call(produce("large", batch(record(bytes(2_000_000)))), PRODUCE_VERSION)
        (part,) = client.call(fetch("large", 20, max_bytes=1), FETCH_VERSION).responses[0].partitions
        assert len(part.records) > 2_000_000


@pytest.mark.parametrize("wait_ms", [INT32_MAX, 60_000])
@pytest.mark.parametrize("min_bytes", [1, INT32_MAX])
def test_a_long_poll_ends_with_its_connection(broker: LiveBroker, filled: Target, wait_ms: int, min_bytes: int) -> None:
    partition = broker.partition(filled.name)
    offset = 5 if min_bytes == 1 else 0
    with RawClient(broker.port) as poller:
        poller.send(fetch(filled.name, offset, max_wait_ms=wait_ms, min_bytes=min_bytes), FETCH_VERSION)
        wait_until(lambda: len(partition.fetch_waiters) == 1, "the fetch waits")
    wait_until(lambda: not partition.fetch_waiters, "the waiter is gone")


def test_what_is_produced_in_the_same_turn_of_the_loop_wakes_a_long_poll(broker: LiveBroker, filled: Target) -> None:
    """Fetch and Produce that are received together, in both orders: the fetch must not wait for its time to be over."""
    with RawClient(broker.port) as first, RawClient(broker.port) as second:
        for poller, producer in [(first, second), (second, first)] * 2:
            polled = fetch(filled.name, filled.written, max_wait_ms=INT32_MAX, min_bytes=1)
            produced = produce(filled.name, batch(record(b"late")))
            with held(broker):
                fetch_id = poller.send(polled, FETCH_VERSION)
                produce_id = producer.send(produced, PRODUCE_VERSION)
            assert produce_codes(producer.read_answer(produced, PRODUCE_VERSION, produce_id)) == [0]
            filled.written += 1
            (part,) = poller.read_answer(polled, FETCH_VERSION, fetch_id).responses[0].partitions
            assert batch_count(part) == 1


@contextmanager
def held(broker: LiveBroker) -> Iterator[None]:
    """The broker stands still meanwhile, and then finds all that has come at once."""
    stands, may_go_on = threading.Event(), threading.Event()

    def hold() -> None:
        stands.set()
        may_go_on.wait()

    broker.loop.call_soon_threadsafe(hold)
    stands.wait()
    try:
        yield
    finally:
        may_go_on.set()


@pytest.mark.parametrize("wait_ms", [0, -1, -(2**31)])
def test_a_wait_of_nothing_or_less_is_answered_at_once(client: RawClient, filled: Target, wait_ms: int) -> None:
    assert fetched(client, filled, 5, max_wait_ms=wait_ms, min_bytes=INT32_MAX).records == b""


def test_more_bytes_than_an_answer_may_have_cannot_be_waited_for(client: RawClient, filled: Target) -> None:
    """min_bytes above max_bytes is satisfied by what max_bytes allows, or no answer would ever come."""
    part = fetched(client, filled, 0, max_wait_ms=INT32_MAX, min_bytes=INT32_MAX, max_bytes=1000)
    assert batch_count(part) == 1


def test_a_waiting_fetch_takes_no_memory_for_records(start_broker: StartBroker) -> None:
    broker = start_broker()
    with RawClient(broker.port) as client:
        create_topic(client, "large")
        for _ in range(10):
            client.call(produce("large", batch(record(bytes(1_000_000)))), PRODUCE_VERSION)
        partition = broker.partition("large")
        asked = fetch("large", max_wait_ms=INT32_MAX, min_bytes=INT32_MAX, partition_max_bytes=INT32_MAX)
        tracemalloc.start()
        try:
            with RawClient(broker.port) as poller:
                poller.send(asked, FETCH_VERSION)
                wait_until(lambda: partition.fetch_waiters, "the fetch waits")
                _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 1_000_000


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_a_client_that_fetches_as_a_replica(
    broker: LiveBroker, client: RawClient, filled: Target, version: int
) -> None:
    """It would move the high watermark (CVE-2018-1288)."""
    partition = broker.partition(filled.name)
    before = partition.log.high_watermark, partition.in_sync_count
    follower: dict[str, Any] = (
        {"replica_id": 5} if version < 15 else {"replica_state": ReplicaState(replica_id=5, replica_epoch=1)}
    )
    response = client.call(fetch(filled.name, 3, topic_id=filled.id, **follower), version)
    assert fetch_codes(response) == [29]
    assert not response.responses[0].partitions[0].records
    assert (partition.log.high_watermark, partition.in_sync_count) == before


@pytest.mark.parametrize("version", SESSION_VERSIONS)
def test_a_fetch_session_that_is_not_there(client: RawClient, filled: Target, version: int) -> None:
    for session_id in (0, 1, -1, INT32_MAX):
        response = client.call(fetch(filled.name, session_id=session_id, session_epoch=1), version)
        assert (response.error_code, response.responses) == (70, [])


@pytest.mark.parametrize("version", SESSION_VERSIONS)
def test_a_wrong_epoch_of_a_fetch_session(client: RawClient, filled: Target, version: int) -> None:
    opened = client.call(fetch(filled.name, topic_id=filled.id, session_epoch=0), version)
    session_id = opened.session_id
    assert session_id
    for epoch in (2, 7, -2, INT32_MAX, -(2**31)):
        wrong = client.call(fetch(filled.name, session_id=session_id, session_epoch=epoch), version)
        assert (wrong.error_code, wrong.responses) == (71, [])
    request = FetchRequest(session_id=session_id, session_epoch=1, max_wait_ms=0, min_bytes=0)
    assert client.call(request, version).error_code == 0


def test_more_fetch_sessions_than_slots(start_broker: StartBroker) -> None:
    broker = start_broker({"max.incremental.fetch.session.cache.slots": "10"})
    sessions = broker.app.services.fetch_sessions
    with RawClient(broker.port) as client:
        create_topic(client, "t")
        ids = [client.call(fetch("t", session_epoch=0), FETCH_VERSION).session_id for _ in range(50)]
        assert len(set(ids) - {0}) == 10
        assert ids[10:] == [0] * 40
        assert len(sessions) == 10
        sessions._eviction_seconds = 0
        assert client.call(fetch("t", session_epoch=0), FETCH_VERSION).session_id
        assert len(sessions) == 10


def test_a_partition_twice_in_one_fetch_is_read_once(client: RawClient, filled: Target) -> None:
    request = fetch(filled.name)
    request.topics[0].partitions += fetch(filled.name, 3).topics[0].partitions
    (part,) = client.call(request, FETCH_VERSION).responses[0].partitions
    assert batch_count(part) == 2


@pytest.mark.parametrize("version", [13, 14, 15, 18])
def test_a_topic_id_that_does_not_exist(client: RawClient, filled: Target, version: int) -> None:
    for topic_id in (bytes(16), b"\xff" * 16, b"0123456789abcdef"):
        assert fetch_codes(client.call(fetch("", topic_id=topic_id), version)) == [100]


@pytest.mark.parametrize("topic", ["", "nowhere", "..", "a/b", "x" * 30_000])
@pytest.mark.parametrize("index", [0, -1, INT32_MAX])
def test_a_topic_name_that_does_not_exist(client: RawClient, filled: Target, topic: str, index: int) -> None:
    assert fetch_codes(client.call(fetch(topic, index=index), FETCH_VERSION)) == [3]
    assert offsets_of(client.call(list_offsets(topic), LIST_OFFSETS_VERSION)) == [(3, -1)]
    if index:
        assert fetch_codes(client.call(fetch(filled.name, index=index), FETCH_VERSION)) == [3]


@pytest.mark.parametrize(("epoch", "code"), [(0, 74), (2, 74), (3, 0), (4, 75), (INT32_MAX, 75), (-1, 0)])
def test_an_old_and_a_future_leader_epoch(
    broker: LiveBroker, client: RawClient, filled: Target, epoch: int, code: int
) -> None:
    broker.partition(filled.name).leader_epoch = 3
    for version in (9, 12, 13, 18):
        asked = fetch(filled.name, topic_id=filled.id, current_leader_epoch=epoch)
        assert fetch_codes(client.call(asked, version)) == [code]
    ((found, _),) = offsets_of(client.call(list_offsets(filled.name, current_leader_epoch=epoch), LIST_OFFSETS_VERSION))
    assert found == code


@pytest.mark.parametrize("version", ALL_VERSIONS)
@pytest.mark.parametrize("level", [2, -1, 127, -128])
def test_an_isolation_level_that_does_not_exist(client: RawClient, filled: Target, version: int, level: int) -> None:
    response = client.call(fetch(filled.name, topic_id=filled.id, isolation_level=level), version)
    if version >= 7:
        assert (response.error_code, response.responses) == (42, [])
    else:
        assert fetch_codes(response) == [42]


@pytest.mark.parametrize("version", [4, 14, 15, 18])
def test_a_fetch_by_a_replica_that_cannot_be_one(client: RawClient, filled: Target, version: int) -> None:
    who: dict[str, Any] = {"replica_id": -7} if version < 15 else {"replica_state": ReplicaState(replica_id=-7)}
    response = client.call(fetch(filled.name, topic_id=filled.id, **who), version)
    assert (response.error_code, fetch_codes(response)) == ((42, []) if version >= 7 else (0, [42]))


@pytest.mark.parametrize(
    "options",
    [
        {"isolation_level": 2},
        {"isolation_level": -1},
        {"replica_id": -7},
        {"replica_id": -(2**31)},
    ],
)
@pytest.mark.parametrize("version", [2, 5, 6, 8, 11])
def test_list_offsets_with_values_that_mean_nothing(
    client: RawClient, filled: Target, options: dict[str, int], version: int
) -> None:
    assert offsets_of(client.call(list_offsets(filled.name, **options), version)) == [(42, -1)]


@pytest.mark.parametrize("timestamp", [-99, -7, -(2**63)])
@pytest.mark.parametrize("version", [2, 11])
def test_questions_of_a_later_list_offsets(client: RawClient, filled: Target, timestamp: int, version: int) -> None:
    """A newer client learns that this broker does not know the question, and does without."""
    assert offsets_of(client.call(list_offsets(filled.name, timestamp=timestamp), version)) == [(35, -1)]


def test_a_partition_twice_in_list_offsets(client: RawClient, filled: Target) -> None:
    request = list_offsets(filled.name)
    request.topics[0].partitions.append(ListOffsetsPartition(partition_index=0, timestamp=-2))
    assert 42 in [code for code, _ in offsets_of(client.call(request, LIST_OFFSETS_VERSION))]


def test_a_fetch_of_very_many_partitions(broker: LiveBroker, filled: Target) -> None:
    count = 19_000
    wanted = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1) for index in range(count)]
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic=filled.name, partitions=wanted)])
    with RawClient(broker.port) as client:
        codes = fetch_codes(client.call(request, FETCH_VERSION))
    assert codes == [0] + [3] * (count - 1)
