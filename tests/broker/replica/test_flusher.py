"""Group commit: one round for all that waits, and nobody waits for ever whatever happens in it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from oncelog.broker.log.disk import StorageError
from oncelog.broker.replica.flusher import (
    AT_ONCE_BYTES_MAX,
    AT_ONCE_IN_A_ROW_MAX,
    LARGE_BYTES,
    PARTITIONS_AT_ONCE,
    SHORT_BYTES,
    Flusher,
)
from oncelog.broker.replica.sync_latency import DiskPace


class FakeTicket:
    def __init__(self, log: FakeLog) -> None:
        self._log = log

    def run(self) -> None:
        self._log.sync()
        self.lacks_descriptors = self._log.runs <= self._log.lacking_runs


class FakeLog:
    directory = "fake-0"

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.runs = 0
        self.lacking_runs = 0
        self.unsynced_tail_bytes = 0
        self.threads: list[threading.Thread] = []
        """Who has run the syncs."""
        self.failure: Exception | None = None
        self.refusal: StorageError | None = None
        self.ticket: FakeTicket | None = None

    def sync(self) -> None:
        self.gate.wait()
        self.runs += 1
        self.threads.append(threading.current_thread())

    def flush_tail(self) -> None:
        self.sync()
        if self.failure is not None:
            raise self.failure

    def begin_flush(self, *, ahead: bool) -> FakeTicket | None:
        assert ahead
        if self.refusal is not None:
            raise self.refusal
        assert self.ticket is None
        self.ticket = FakeTicket(self)
        return self.ticket

    def complete_flush(self, _: FakeTicket) -> None:
        self.ticket = None
        if self.failure is not None:
            raise self.failure


class FakePartition:
    def __init__(self) -> None:
        self.log: Any = FakeLog()
        self.flushed_count = 0
        self.failures: list[StorageError] = []

    def flushed(self) -> None:
        self.flushed_count += 1

    def go_offline(self, error: StorageError) -> None:
        self.failures.append(error)


class FixedPace(DiskPace):
    def __init__(self, on_loop: bool) -> None:
        super().__init__()
        self._on_loop = on_loop

    @property
    def is_fast(self) -> bool:
        return self._on_loop

    def allows_loop(self) -> bool:
        return self._on_loop


@pytest.fixture(params=[False, True], ids=["in threads", "on the loop"])
async def flusher(request: pytest.FixtureRequest) -> AsyncIterator[Flusher]:
    flusher = Flusher(FixedPace(request.param))
    yield flusher
    flusher.close()


async def test_what_is_marked_while_a_round_runs_gathers_for_the_next(flusher: Flusher) -> None:
    partition = FakePartition()
    for _ in range(100):
        flusher.mark_dirty(partition)
    await flusher.drain()
    assert partition.log.runs == 1
    flusher.mark_dirty(partition)
    await flusher.drain()
    assert partition.flushed_count == 2


async def test_a_sync_that_fails_concerns_its_partition_alone(flusher: Flusher) -> None:
    good, bad = FakePartition(), FakePartition()
    bad.log.failure = StorageError("the disk is gone")
    flusher.mark_dirty(bad)
    flusher.mark_dirty(good)
    await flusher.drain()
    assert [str(error) for error in bad.failures] == ["the disk is gone"]
    assert good.flushed_count == 1


async def test_a_bug_in_one_partition_keeps_no_other_waiting(flusher: Flusher) -> None:
    good, bad = FakePartition(), FakePartition()
    bad.log.failure = ValueError("a bug")
    flusher.mark_dirty(bad)
    flusher.mark_dirty(good)
    await flusher.drain()
    assert len(bad.failures) == 1
    assert good.flushed_count == 1


async def test_who_appends_when_told_of_a_failure_does_not_begin_a_round_within_the_round() -> None:
    flusher = Flusher(FixedPace(False))
    first, refused = FakePartition(), FakePartition()
    refused.log.refusal = StorageError("too many open files")
    refused.go_offline = lambda _: flusher.mark_dirty(first, awaited=True)  # type: ignore[method-assign]
    first.log.gate.clear()
    flusher.mark_dirty(first, awaited=True)
    flusher.mark_dirty(refused, awaited=True)
    for _ in range(3):
        await asyncio.sleep(0)
    first.log.gate.set()
    await flusher.drain()
    flusher.close()
    assert first.flushed_count == 2


async def test_many_partitions_do_not_hold_their_files_at_the_same_time(flusher: Flusher) -> None:
    partitions = [FakePartition() for _ in range(2 * PARTITIONS_AT_ONCE + 1)]
    under_way: set[FakeLog] = set()
    counts = []

    class CountedLog(FakeLog):
        def begin_flush(self, *, ahead: bool) -> FakeTicket | None:
            under_way.add(self)
            counts.append(len(under_way))
            return super().begin_flush(ahead=ahead)

        def complete_flush(self, ticket: FakeTicket) -> None:
            under_way.remove(self)
            super().complete_flush(ticket)

    for partition in partitions:
        partition.log = CountedLog()
        flusher.mark_dirty(partition)
    await flusher.drain()
    assert max(counts) == PARTITIONS_AT_ONCE
    assert all(partition.flushed_count == 1 for partition in partitions)


async def test_what_nobody_waits_for_stays_out_of_the_way(flusher: Flusher) -> None:
    awaited, other = FakePartition(), FakePartition()
    flusher.mark_dirty(other)
    flusher.mark_dirty(awaited, awaited=True)
    while not awaited.flushed_count:
        await asyncio.sleep(0)
    assert other.flushed_count == 0 or flusher._put_off_timer is None
    # It comes by itself.
    while not other.flushed_count:
        await asyncio.sleep(0)


async def test_each_is_put_off_from_when_it_was_marked(flusher: Flusher, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was synced with what somebody waited for, and marked again, does not come due with its first mark."""
    first, second = FakePartition(), FakePartition()
    flusher.mark_dirty(second)
    flusher.mark_dirty(first)
    flusher.hurry(second)
    while not second.flushed_count:
        await asyncio.sleep(0)
    monkeypatch.setattr("oncelog.broker.replica.flusher.PUT_OFF_SECONDS", 1e6)
    flusher.mark_dirty(second)
    while not first.flushed_count:
        await asyncio.sleep(0)
    assert second.flushed_count == 1
    await flusher.drain()
    assert second.flushed_count == 2


async def test_who_begins_to_wait_is_served_at_once(flusher: Flusher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oncelog.broker.replica.flusher.PUT_OFF_SECONDS", 1e6)
    partition, clean = FakePartition(), FakePartition()
    flusher.mark_dirty(partition)
    flusher.hurry(clean)
    flusher.hurry(partition)
    while not partition.flushed_count:
        await asyncio.sleep(0)
    assert clean.flushed_count == 0


async def test_a_partition_that_is_clean_keeps_nobody_waiting(flusher: Flusher) -> None:
    partition = FakePartition()
    partition.log.unsynced_tail_bytes = -1
    partition.log.begin_flush = lambda *, ahead: None
    flusher.mark_dirty(partition)
    await flusher.drain()
    assert partition.flushed_count == 1


@pytest.mark.parametrize(
    ("tail_bytes", "partition_count"),
    [(-1, 1), (SHORT_BYTES + 1, 1), (0, 3)],
    ids=["more than a tail", "much", "many"],
)
async def test_the_loop_does_not_sync_much_nor_many(tail_bytes: int, partition_count: int) -> None:
    flusher = Flusher(FixedPace(on_loop=True), FixedPace(on_loop=True))
    partitions = [FakePartition() for _ in range(partition_count)]
    for partition in partitions:
        partition.log.unsynced_tail_bytes = tail_bytes
        flusher.mark_dirty(partition)
    await flusher.drain()
    flusher.close()
    assert all(len(partition.log.threads) == 1 for partition in partitions)
    assert all(threading.current_thread() not in partition.log.threads for partition in partitions)


@pytest.mark.parametrize("size_bytes", [LARGE_BYTES - 1, LARGE_BYTES], ids=["small", "large"])
async def test_large_rounds_have_a_pace_of_their_own(size_bytes: int) -> None:
    flusher = Flusher(FixedPace(on_loop=True), pace_of_large=FixedPace(on_loop=False))
    partition = FakePartition()
    partition.log.unsynced_tail_bytes = size_bytes
    flusher.mark_dirty(partition)
    await flusher.drain()
    flusher.close()
    assert (partition.log.threads == [threading.current_thread()]) is (size_bytes < LARGE_BYTES)


async def test_a_flush_that_lacked_descriptors_is_tried_again(
    flusher: Flusher, caplog: pytest.LogCaptureFixture
) -> None:
    partition, neighbour = FakePartition(), FakePartition()
    partition.log.lacking_runs = 3
    partition.log.unsynced_tail_bytes = -1
    flusher.mark_dirty(partition, awaited=True)
    await flusher.drain()
    assert (partition.flushed_count, partition.failures) == (0, [])
    flusher.mark_dirty(neighbour, awaited=True)
    while not partition.flushed_count:
        await asyncio.sleep(0.001)
    assert (partition.log.runs, partition.flushed_count, neighbour.flushed_count) == (4, 1, 1)
    assert "fake-0 waits for a file descriptor" in caplog.text


class LateClock:
    """Instead of `time`: a loop that has worked `worked` and slept `slept` seconds since each sync."""

    def __init__(self, worked: float, slept: float) -> None:
        self._worked, self._slept = worked, slept
        self._reads = 0

    def perf_counter(self) -> float:
        return self._reads * (self._worked + self._slept)

    def thread_time(self) -> float:
        self._reads += 1
        return (self._reads - 1) * self._worked


@pytest.fixture
def asleep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oncelog.broker.replica.flusher.time", LateClock(worked=1e-4, slept=1e-3))


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oncelog.broker.replica.flusher.time", LateClock(worked=1e-3, slept=0))


def on_loop() -> Flusher:
    return Flusher(FixedPace(on_loop=True), FixedPace(on_loop=True))


async def test_a_lone_request_is_synced_at_once(asleep: None) -> None:
    flusher, partition = on_loop(), FakePartition()
    for count in range(1, 5):
        flusher.mark_dirty(partition)
        assert flusher.sync_now(partition)
        assert (partition.log.runs, partition.flushed_count) == (count, count)
    await flusher.drain()
    assert partition.log.runs == 4, "nothing was left to be synced"


async def test_requests_that_follow_without_a_pause_gather_for_a_round(busy: None) -> None:
    flusher, partition = on_loop(), FakePartition()
    at_once = [flusher.sync_now(FakePartition()) for _ in range(5)]
    assert at_once == [True] * AT_ONCE_IN_A_ROW_MAX + [False] * (5 - AT_ONCE_IN_A_ROW_MAX)
    flusher.mark_dirty(partition, awaited=True)
    await flusher.drain()
    assert not flusher.sync_now(partition), "nor directly after the round"


async def test_the_second_in_a_row_is_another_log(busy: None) -> None:
    flusher, partition = on_loop(), FakePartition()
    assert flusher.sync_now(partition)
    assert not flusher.sync_now(partition), "which is the next request, not the same one"
    assert flusher.sync_now(FakePartition())


async def test_who_is_told_of_a_round_belongs_to_a_crowd(asleep: None) -> None:
    """What the round has waited for the disk is not sleep."""
    flusher, partition = on_loop(), FakePartition()
    at_once: list[bool] = []
    partition.flushed = lambda: at_once.append(flusher.sync_now(FakePartition()))  # type: ignore[method-assign]
    clock = LateClock(worked=1e-3, slept=0)
    with pytest.MonkeyPatch.context() as patch:
        partition.log.flush_tail = lambda: patch.setattr("oncelog.broker.replica.flusher.time", clock)
        flusher.mark_dirty(partition, awaited=True)
        await flusher.drain()
    assert at_once == [False]


async def test_a_round_that_was_synced_at_once_says_nothing_of_the_disk(asleep: None) -> None:
    class NotedPace(FixedPace):
        def note(self, seconds: float, size_bytes: int) -> None:
            notes.append(size_bytes)

    notes: list[int] = []
    flusher, partition = Flusher(NotedPace(on_loop=True)), FakePartition()
    partition.log.unsynced_tail_bytes = 7
    flusher.mark_dirty(partition, awaited=True)
    assert flusher.sync_now(partition)
    await flusher.drain()
    await asyncio.sleep(0)
    assert notes == [7]


async def test_who_is_told_while_a_round_is_made_does_not_sync_within_it(asleep: None) -> None:
    flusher = on_loop()
    first, refused, last = FakePartition(), FakePartition(), FakePartition()
    refused.log.refusal = StorageError("a sync failed")
    at_once: list[bool] = []
    refused.go_offline = lambda _: at_once.extend(map(flusher.sync_now, (first, last)))  # type: ignore[method-assign]
    for partition in (first, refused, last):
        flusher.mark_dirty(partition, awaited=True)
    await flusher.drain()
    flusher.close()
    assert at_once == [False, False]
    assert [partition.flushed_count for partition in (first, last)] == [1, 1]


async def test_nothing_is_synced_at_once_beside_others(asleep: None) -> None:
    flusher, partition, other = on_loop(), FakePartition(), FakePartition()
    flusher.mark_dirty(other, awaited=True)
    assert not flusher.sync_now(partition)
    assert flusher.sync_now(other), "which is alone"
    await flusher.drain()
    assert (other.flushed_count, partition.flushed_count) == (1, 0)


@pytest.mark.parametrize("tail_bytes", [-1, AT_ONCE_BYTES_MAX + 1])
async def test_only_a_short_tail_is_synced_at_once(asleep: None, tail_bytes: int) -> None:
    flusher, partition = on_loop(), FakePartition()
    partition.log.unsynced_tail_bytes = tail_bytes
    assert not flusher.sync_now(partition)


async def test_a_slow_disk_is_left_to_threads(asleep: None) -> None:
    flusher, partition = Flusher(FixedPace(on_loop=False)), FakePartition()
    assert not flusher.sync_now(partition)
    partition.log.gate.clear()
    flusher.mark_dirty(partition, awaited=True)
    await asyncio.sleep(0)
    assert not flusher.sync_now(FakePartition()), "while a round is under way"
    partition.log.gate.set()
    await flusher.drain()
    flusher.close()


async def test_a_sync_at_once_that_fails_concerns_its_partition(asleep: None) -> None:
    flusher, partition = on_loop(), FakePartition()
    partition.log.failure = StorageError("the disk is gone")
    assert not flusher.sync_now(partition)
    assert [str(error) for error in partition.failures] == ["the disk is gone"]


async def test_the_loop_syncs_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    flusher = Flusher(FixedPace(False))
    partitions = [FakePartition() for _ in range(3)]
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        for partition in partitions:
            flusher.mark_dirty(partition, awaited=True)
        await flusher.drain()
    assert [partition.flushed_count for partition in partitions] == [1, 1, 1]
    flusher.mark_dirty(partitions[0], awaited=True)
    await flusher.drain()
    assert partitions[0].log.threads[-1] is not threading.main_thread()
    flusher.close()


async def test_a_log_whose_flush_cannot_begin_concerns_itself_alone() -> None:
    flusher = Flusher(FixedPace(False))
    good, bad = FakePartition(), FakePartition()

    def fail(*, ahead: bool) -> None:
        raise MemoryError("no memory")

    bad.log.begin_flush = fail
    for partition in (bad, good):
        flusher.mark_dirty(partition, awaited=True)
    await flusher.drain()
    assert (good.flushed_count, bad.flushed_count, len(bad.failures)) == (1, 0, 1)
    flusher.close()
