"""Markers are written until they are, whatever the disk or an administrator does meanwhile."""

from __future__ import annotations

import asyncio
import errno
import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from oncelog.broker.admin.topics import create_topics
from oncelog.broker.app import BrokerApp
from oncelog.broker.base import turns
from oncelog.broker.config.broker_config import Setting
from oncelog.broker.config.load import load_config
from oncelog.broker.coordinator.run import context as context_module
from oncelog.broker.coordinator.txn.state import State
from oncelog.broker.metadata.plans.topics import NewTopic
from oncelog.broker.requests.services import Services
from oncelog.broker.txn import markers
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.delete_topics import DeleteTopicState
from tests.broker.log.simulated_disk import SimulatedDisk
from tests.transactions.direct_client import DirectProducer, call

TOPIC = "t"
TIMEOUT_MS = 60_000


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(markers, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(context_module, "_RELOAD_PAUSE_SECONDS", 0.01)


@pytest.fixture
def disk(tmp_path: Path) -> SimulatedDisk:
    disk = SimulatedDisk()
    for parent in tmp_path.parents:
        disk.names[str(parent)] = disk.durable_names[str(parent)] = None
    return disk


async def start(root: Path, disk: SimulatedDisk, *, flush_on_ack: bool) -> BrokerApp:
    settings = {
        "log.dirs": str(root),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.flush.on.ack": str(flush_on_ack).lower(),
        "transaction.state.log.num.partitions": "1",
    }
    config = load_config(flags=[Setting(name, value, "the test") for name, value in settings.items()])
    app = BrokerApp(config, disk=disk)
    await app.start()
    return app


@pytest.fixture
async def services(tmp_path: Path, disk: SimulatedDisk) -> AsyncIterator[Services]:
    app = await start(tmp_path, disk, flush_on_ack=False)
    await create_topics(app.services, [NewTopic(TOPIC, partition_count=2)])
    await app.services.transactions.leader_of("x")
    yield app.services
    await app.stop()


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
async def producer(request: pytest.FixtureRequest, services: Services) -> DirectProducer:
    """With an open transaction in two partitions."""
    producer = DirectProducer(services, "x", request.param, TIMEOUT_MS)
    await producer.init()
    for partition in range(2):
        await producer.send(TOPIC, partition, "value")
    return producer


def state(services: Services) -> State:
    (shard,) = services.transactions.shards
    (transaction,) = shard.coordinator.transactions()
    return transaction.state


def stable_offsets(services: Services) -> list[int]:
    return [services.partitions.leader(TOPIC, partition).log.last_stable_offset for partition in range(2)]


async def test_an_end_is_answered_when_every_partition_has_its_marker(
    services: Services, producer: DirectProducer
) -> None:
    await producer.end(True)
    assert stable_offsets(services) == [2, 2]
    assert state(services) == State.COMPLETE_COMMIT


async def test_the_markers_of_very_many_partitions_take_several_turns_of_the_loop(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "TURN_SECONDS", 0)
    await create_topics(services, [NewTopic("wide", partition_count=35)])
    producer = DirectProducer(services, "x", 2, TIMEOUT_MS)
    await producer.init()
    for partition in range(35):
        await producer.send("wide", partition, "value")
    logs = [services.partitions.leader("wide", partition).log for partition in range(35)]
    ending = asyncio.ensure_future(producer.end(True))
    counts = [0]
    while not ending.done():
        await asyncio.sleep(0)
        counts.append(sum(log.last_stable_offset == 2 for log in logs))
    assert counts[-1] == 35
    assert max(later - former for former, later in itertools.pairwise(counts)) == 1
    assert state(services) == State.COMPLETE_COMMIT
    await ending


async def test_a_partition_that_takes_no_marker_is_tried_again(
    services: Services, producer: DirectProducer, disk: SimulatedDisk
) -> None:
    # The decision is written, one partition takes its marker, the other does not, twice.
    disk.fail("pwrite", 0, 0, errno.ENOSPC, errno.ENOSPC)
    ending = asyncio.ensure_future(producer.end(True))
    await asyncio.sleep(0)
    assert sorted(stable_offsets(services)) == [0, 2]
    assert not ending.done()
    await ending
    assert stable_offsets(services) == [2, 2]
    assert services.partitions.leader(TOPIC, 0).log.aborted_transactions(0, 9) == []


async def test_an_abort_is_tried_again_if_the_index_of_aborts_cannot_be_read_after_a_restart(
    tmp_path: Path, disk: SimulatedDisk
) -> None:
    app = await start(tmp_path, disk, flush_on_ack=True)
    await create_topics(app.services, [NewTopic(TOPIC, partition_count=2)])
    await app.services.transactions.leader_of("x")
    for failures in ([], [errno.EMFILE, errno.EMFILE]):
        producer = DirectProducer(app.services, "x", 2, TIMEOUT_MS)
        await producer.init()
        for partition in range(2):
            await producer.send(TOPIC, partition, "value")
        disk.fail("open .txnindex", *failures)
        await producer.end(False)
        assert not any(disk.failures.values()), "the failures were met"
        assert stable_offsets(app.services) == [app.services.partitions.leader(TOPIC, 0).log.end_offset] * 2
        # Its coordinator goes on, too.
        await producer.init()
        await app.stop()
        disk = disk.after_kill()
        app = await start(tmp_path, disk, flush_on_ack=True)
    await app.stop()


async def test_a_decision_that_cannot_be_written_is_none(
    services: Services, producer: DirectProducer, disk: SimulatedDisk
) -> None:
    disk.fail("pwrite", errno.ENOSPC)
    with pytest.raises(KafkaError) as caught:
        await producer.end(True)
    assert caught.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert stable_offsets(services) == [0, 0]
    # The client asks again, for the opposite even, and the coordinator has read its log anew.
    await producer.end(False)
    assert state(services) == State.COMPLETE_ABORT


async def test_an_end_that_cannot_be_noted_is_noted_later(
    services: Services, producer: DirectProducer, disk: SimulatedDisk
) -> None:
    disk.fail("pwrite", 0, 0, 0, errno.ENOSPC)
    # The decision is safe and in every partition; that it was noted is of no interest to the client.
    await producer.end(True)
    assert min(stable_offsets(services)) >= 2
    await services.transactions.shard_for("x").loading()
    assert state(services) == State.COMPLETE_COMMIT
    await producer.send(TOPIC, 0, "next")
    await producer.end(False)
    aborted = services.partitions.leader(TOPIC, 0).log.aborted_transactions(0, 99)
    assert len(aborted) == 1


async def test_an_end_that_is_refused_is_in_the_log(
    services: Services, producer: DirectProducer, caplog: pytest.LogCaptureFixture
) -> None:
    await producer.end(True)
    other = DirectProducer(services, "two\nlines", producer.version, TIMEOUT_MS)
    await other.init()
    with pytest.raises(KafkaError) as caught:
        await other.end(True)
    assert caught.value.code == ErrorCode.INVALID_TXN_STATE
    (message,) = [record.getMessage() for record in caplog.records if "was refused" in record.getMessage()]
    assert message.startswith(r"the end of 'two\nlines' by producer")


async def test_a_topic_that_is_deleted_has_nothing_to_end(services: Services, producer: DirectProducer) -> None:
    await call(services, ApiKey.DELETE_TOPICS, 6, topics=[DeleteTopicState(name=TOPIC)], timeout_ms=1000)
    await producer.end(True)
    assert state(services) == State.COMPLETE_COMMIT


async def test_a_timeout_ends_the_transaction_without_its_client(services: Services, producer: DirectProducer) -> None:
    services.clock.advance(TIMEOUT_MS)
    for _ in range(100):
        if state(services) == State.COMPLETE_ABORT:
            break
        await asyncio.sleep(0.01)
    assert stable_offsets(services) == [2, 2]
    with pytest.raises(KafkaError) as caught:
        await producer.send(TOPIC, 0, "late")
    fenced = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
    assert caught.value.code in fenced
