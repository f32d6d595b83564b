"""acks=all over several partitions, whose disks need not be equally fast nor equally healthy."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from oncelog.broker.replica.waiters import AckCountdown, AckTimeouts
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.messages.produce import ProduceRequest
from tests.bad_input.faulty_disk import FaultyDisk
from tests.bad_input.live import LiveBroker
from tests.bad_input.raw import RawClient, wait_until
from tests.bad_input.requests import PRODUCE_VERSION, batch, create_topic, produce, produce_codes

SLOW, OTHER = "slow", "other"


@pytest.fixture
def disk() -> Iterator[FaultyDisk]:
    disk = FaultyDisk()
    yield disk
    disk.release()


@pytest.fixture
def broker(tmp_path: Path, disk: FaultyDisk) -> Iterator[LiveBroker]:
    broker = LiveBroker(tmp_path, {"log.flush.on.ack": "true"}, disk)
    yield broker
    disk.release()
    broker.stop()


@pytest.fixture
def client(broker: LiveBroker) -> Iterator[RawClient]:
    with RawClient(broker.port) as client:
        create_topic(client, SLOW)
        create_topic(client, OTHER)
        yield client


@pytest.fixture(autouse=True)
def one_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both batches are appended in one turn of the event loop, also on a slow machine, and synced in one round."""
    monkeypatch.setattr("oncelog.broker.handlers.produce._SLICE_SECONDS", 60)


def produce_to_both() -> ProduceRequest:
    """Batches that get the same offset in both: the answers of the two partitions are equal."""
    request = produce(SLOW, batch())
    request.topic_data += produce(OTHER, batch()).topic_data
    return request


def test_a_timeout_refuses_the_partition_that_is_not_safe(
    broker: LiveBroker, client: RawClient, disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    timeouts: list[Callable[[], None]] = []
    expire_after = AckCountdown.expire_after

    def expire_when_told(
        countdown: AckCountdown[object], limits: AckTimeouts, _: int, on_expired: Callable[[], None]
    ) -> None:
        timeouts.append(lambda: expire_after(countdown, limits, 0, on_expired))

    monkeypatch.setattr(AckCountdown, "expire_after", expire_when_told)
    disk.hold(SLOW)
    request = produce_to_both()
    sent = client.send(request, PRODUCE_VERSION)
    other = broker.partition(OTHER)
    wait_until(lambda: other.log.high_watermark == 1, "the other partition is safe")
    broker.on_loop(timeouts.pop())
    answer = client.read_answer(request, PRODUCE_VERSION, sent)
    assert produce_codes(answer) == [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NONE]
    monkeypatch.undo()
    disk.release()
    assert produce_codes(client.call(produce_to_both(), PRODUCE_VERSION)) == [ErrorCode.NONE, ErrorCode.NONE]


def test_a_sync_that_fails_refuses_its_own_partition_alone(
    broker: LiveBroker, client: RawClient, disk: FaultyDisk
) -> None:
    disk.hold(SLOW)
    disk.broken_directory, disk.sync_error = OTHER, errno.EIO
    request = produce_to_both()
    sent = client.send(request, PRODUCE_VERSION)
    other = broker.partition(OTHER)
    wait_until(lambda: other.log.is_offline, "the other partition has failed")
    disk.release()
    answer = client.read_answer(request, PRODUCE_VERSION, sent)
    assert produce_codes(answer) == [ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR]
    again = client.call(produce_to_both(), PRODUCE_VERSION)
    assert produce_codes(again) == [ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR]
