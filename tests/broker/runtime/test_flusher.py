"""Group commit: one round for all that waits, and nobody waits for ever whatever happens in it."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from oncelog.broker.log.disk import StorageError
from oncelog.broker.runtime.flusher import ON_LOOP_SECONDS_MAX, PARTITIONS_AT_ONCE, ROUNDS_BETWEEN_TRIALS, Flusher, Pace


class FakeTicket:
    def __init__(self, log: FakeLog) -> None:
        self._log = log

    def run(self) -> None:
        self._log.gate.wait()
        self._log.runs += 1


class FakeLog:
    directory = "fake-0"

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.runs = 0
        self.failure: Exception | None = None

    def begin_flush(self) -> FakeTicket:
        return FakeTicket(self)

    def complete_flush(self, _: FakeTicket) -> None:
        if self.failure is not None:
            raise self.failure


class FakePartition:
    def __init__(self) -> None:
        self.log: Any = FakeLog()
        self.flushed_count = 0
        self.failures: list[StorageError] = []

    def flushed(self) -> None:
        self.flushed_count += 1

    def failed(self, error: StorageError) -> None:
        self.failures.append(error)


@pytest.fixture(params=[0, math.inf], ids=["in threads", "on the loop"])
async def flusher(request: pytest.FixtureRequest) -> AsyncIterator[Flusher]:
    flusher = Flusher(on_loop_seconds_max=request.param)
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


async def test_many_partitions_do_not_hold_their_files_at_the_same_time(flusher: Flusher) -> None:
    partitions = [FakePartition() for _ in range(2 * PARTITIONS_AT_ONCE + 1)]
    under_way: set[FakeLog] = set()
    counts = []

    class CountedLog(FakeLog):
        def begin_flush(self) -> FakeTicket:
            under_way.add(self)
            counts.append(len(under_way))
            return super().begin_flush()

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


async def test_who_begins_to_wait_is_served_at_once(flusher: Flusher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oncelog.broker.runtime.flusher.PUT_OFF_SECONDS", 1e6)
    partition, clean = FakePartition(), FakePartition()
    flusher.mark_dirty(partition)
    flusher.hurry(clean)
    flusher.hurry(partition)
    while not partition.flushed_count:
        await asyncio.sleep(0)
    assert clean.flushed_count == 0


def test_the_pace_of_a_fast_disk_survives_a_slow_sync_but_not_a_slow_disk() -> None:
    pace = Pace()
    assert pace.seconds > ON_LOOP_SECONDS_MAX, "an unknown disk is taken to be slow"
    for _ in range(100):
        pace.note(0.0001)
    pace.note(0.1)
    assert pace.seconds <= ON_LOOP_SECONDS_MAX
    for _ in range(10):
        pace.note(0.1)
    assert pace.seconds > ON_LOOP_SECONDS_MAX


async def test_a_slow_disk_is_left_to_threads_and_tried_again() -> None:
    flusher, partition = Flusher(), FakePartition()
    threads: list[threading.Thread] = []

    class NotedTicket(FakeTicket):
        def run(self) -> None:
            threads.append(threading.current_thread())
            flusher._pace.seconds = 1.0

    partition.log.begin_flush = lambda: NotedTicket(partition.log)
    for _ in range(2 * ROUNDS_BETWEEN_TRIALS):
        flusher.mark_dirty(partition)
        await flusher.drain()
    flusher.close()
    own = threading.current_thread()
    assert [round for round, thread in enumerate(threads, 1) if thread is own] == [
        ROUNDS_BETWEEN_TRIALS,
        2 * ROUNDS_BETWEEN_TRIALS,
    ]
