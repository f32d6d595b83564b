"""A real broker whose wall clock is wrong at first and is then corrected, or whose machine was suspended: offsets and
transactional ids that are used afterwards survive a restart.

The clock is that of the process: a small library that is preloaded shifts it.
"""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog.protocol.messages.find_coordinator import FindCoordinatorRequest
from oncelog.protocol.messages.init_producer_id import InitProducerIdRequest
from oncelog.protocol.messages.list_transactions import ListTransactionsRequest
from oncelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from oncelog.testing import Broker
from tests.bad_input.raw import RawClient
from tests.bad_input.requests import create_topic

DAY_MS = 24 * 3_600_000
CHECK_MS = 1000
SETTINGS = {
    "offsets.retention.check.interval.ms": CHECK_MS,
    "transaction.remove.expired.transaction.cleanup.interval.ms": CHECK_MS,
}
GROUP, TOPIC, TRANSACTIONAL_ID = "g", "t", "x"
INIT, COMMIT, FETCH = 4, 8, 8

_COMPILER = shutil.which("cc")

pytestmark = pytest.mark.skipif(
    _COMPILER is None or not sys.platform.startswith("linux"), reason="the clock is shifted by a C library for Linux"
)


class WallClock:
    """How far the wall clock of the brokers of a test is from the right time."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w+b")
        self._file.write(bytes(8))
        self._file.flush()
        self._shift = mmap.mmap(self._file.fileno(), 8)

    def set(self, shift_ms: int) -> None:
        self._shift[:] = struct.pack("=q", shift_ms)

    def close(self) -> None:
        self._shift.close()
        self._file.close()


@pytest.fixture
def wall_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WallClock]:
    library = tmp_path / "wall_clock.so"
    source = Path(__file__).with_name("wall_clock.c")
    subprocess.run([str(_COMPILER), "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
    clock = WallClock(tmp_path / "shift")
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("WALL_CLOCK_SHIFT", str(tmp_path / "shift"))
    yield clock
    clock.close()


class Client:
    """Commits an offset, and starts a producer with a transactional id."""

    def __init__(self, broker: Broker) -> None:
        self._client = RawClient(int(broker.bootstrap_servers.rpartition(":")[2]))
        for key, kind in ((GROUP, 0), (TRANSACTIONAL_ID, 1)):
            (found,) = self._client.call(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), 6).coordinators
            assert found.error_code == 0

    def create_topic(self) -> None:
        create_topic(self._client, TOPIC)

    def use(self, offset: int) -> None:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topic = OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
        committed = self._client.call(OffsetCommitRequest(group_id=GROUP, topics=[topic]), COMMIT)
        assert committed.topics[0].partitions[0].error_code == 0
        request = InitProducerIdRequest(transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=60_000)
        assert self._client.call(request, INIT).error_code == 0

    @property
    def offset(self) -> int:
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=None)])
        (group,) = self._client.call(request, FETCH).groups
        offsets = [partition.committed_offset for topic in group.topics for partition in topic.partitions]
        return offsets[0] if offsets else -1

    @property
    def transactional_ids(self) -> list[str]:
        found = self._client.call(ListTransactionsRequest(), 1).transaction_states
        return [state.transactional_id for state in found]

    def close(self) -> None:
        self._client.socket.close()


def use(broker: Broker, offset: int, *, first: bool = False) -> None:
    client = Client(broker)
    if first:
        client.create_topic()
    client.use(offset)
    client.close()


def check_kept(broker: Broker, offset: int) -> None:
    """Both are there, also after the broker has looked for what is expired."""
    client = Client(broker)
    broker.clock.advance(2 * CHECK_MS)
    assert client.offset == offset
    assert client.transactional_ids == [TRANSACTIONAL_ID]
    client.close()


@pytest.mark.parametrize(("start_days", "correction_days"), [(-30, 30), (30, -30), (0, 8), (0, -8)])
def test_what_is_used_after_the_clock_was_set_survives_a_restart(
    wall_clock: WallClock, start_days: int, correction_days: int
) -> None:
    wall_clock.set(start_days * DAY_MS)
    with Broker(SETTINGS, subprocess=True) as broker:
        use(broker, 1, first=True)
        wall_clock.set((start_days + correction_days) * DAY_MS)
        check_kept(broker, 1)
        use(broker, 2)
        broker.restart()
        check_kept(broker, 2)


@pytest.mark.parametrize("days", [30, -30])
def test_a_clock_that_is_set_while_the_broker_is_stopped_expires_nothing(wall_clock: WallClock, days: int) -> None:
    wall_clock.set(-days * DAY_MS)
    with Broker(SETTINGS, subprocess=True) as broker:
        use(broker, 1, first=True)
        broker.stop()
        wall_clock.set(0)
        broker.start()
        check_kept(broker, 1)


def test_several_jumps(wall_clock: WallClock) -> None:
    with Broker(SETTINGS, subprocess=True) as broker:
        use(broker, 0, first=True)
        for number, days in enumerate((-30, 400, -8, 0), 1):
            wall_clock.set(days * DAY_MS)
            use(broker, number)
            broker.restart()
            check_kept(broker, number)
