from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import AsyncIterator, Callable

import pytest

from oncelog.broker.base.cpu_workers import Checkpoint, CpuWorkers
from oncelog.protocol.errors import KafkaError


@pytest.fixture
async def workers() -> AsyncIterator[CpuWorkers]:
    workers = CpuWorkers()
    yield workers
    workers.close()


class Gate:
    """Work that goes on until the gate is opened, and calls its checkpoint meanwhile."""

    def __init__(self, result: str = "done") -> None:
        self.opened = threading.Event()
        self.thread_names: list[str] = []
        self._result = result

    def __call__(self, checkpoint: Checkpoint) -> str:
        self.thread_names.append(threading.current_thread().name)
        while not self.opened.wait(0.001):
            checkpoint()
        return self._result

    async def entered(self, count: int = 1) -> None:
        while len(self.thread_names) < count:
            await asyncio.sleep(0.001)


def burn(checkpoint: Checkpoint) -> None:
    """Work that never ends by itself."""
    while True:
        checkpoint()


async def test_the_result_and_the_error_of_the_work(workers: CpuWorkers) -> None:
    assert await workers.run(lambda _: threading.current_thread() is not threading.main_thread())

    def fail(_: Checkpoint) -> None:
        raise ValueError("bad input")

    with pytest.raises(ValueError, match="bad input"):
        await workers.run(fail)


async def test_long_work_starts_again_in_the_second_tier_and_does_not_hold_up_others(workers: CpuWorkers) -> None:
    starts: list[str] = []
    opened = threading.Event()

    def long_work(checkpoint: Checkpoint) -> str:
        starts.append(threading.current_thread().name)
        while not opened.is_set():
            checkpoint()
        return "long"

    long_jobs = [workers.run(long_work) for _ in range(3)]
    while not any("long" in name for name in starts):
        assert await workers.run(lambda _: "short") == "short"
    assert await workers.run(lambda _: "short") == "short"
    assert not any(job.done() for job in long_jobs)
    opened.set()
    assert [await job for job in long_jobs] == ["long"] * 3
    # Each of those that were given up began anew, in the one thread for long jobs.
    assert {name for name in starts if "long" in name} == {"oncelog-cpu-long-0"}


async def test_work_that_is_given_up_makes_room_for_the_next(workers: CpuWorkers) -> None:
    gates = [Gate() for _ in range(20)]
    jobs = [workers.run(gate) for gate in gates]
    await gates[0].entered()
    for job in jobs[:-1]:
        job.cancel()
        with pytest.raises(asyncio.CancelledError):
            await job
    await gates[-1].entered()
    gates[-1].opened.set()
    assert await jobs[-1] == "done"
    # Jobs that were given up before their turn were not begun.
    assert sum(len(gate.thread_names) for gate in gates) < 20


async def test_closing_ends_all_work(workers: CpuWorkers) -> None:
    threads = set(threading.enumerate())
    jobs = [workers.run(work) for work in (burn, burn, Gate(), Gate())]
    await asyncio.sleep(0.01)
    workers.close()
    for job in jobs:
        with pytest.raises(asyncio.CancelledError):
            await job
    assert set(threading.enumerate()) == threads
    late = workers.run(lambda _: None)
    assert late.cancelled()


async def test_what_work_had_in_memory_is_released_with_it(workers: CpuWorkers) -> None:
    """Also without the garbage collector, and while the work waits for its turn in the second tier."""

    class Window:
        pass

    windows: list[weakref.ref[Window]] = []

    def work_with(end: Callable[[Checkpoint], None]) -> Callable[[Checkpoint], None]:
        def work(checkpoint: Checkpoint) -> None:
            window = Window()
            windows.append(weakref.ref(window))
            end(checkpoint)

        return work

    def fail(_: Checkpoint) -> None:
        raise ValueError("bad input")

    gc.disable()
    try:
        with pytest.raises(ValueError, match="bad input"):
            await workers.run(work_with(fail))
        assert windows.pop()() is None
        burning = [workers.run(work_with(burn)) for _ in range(3)]
        while len(windows) < 4:
            await asyncio.sleep(0.001)
        # All have been in the first tier, and one is in the second.
        while sum(window() is not None for window in windows) > 1:
            await asyncio.sleep(0.001)
        for job in burning:
            job.cancel()
    finally:
        gc.enable()


async def test_a_job_is_refused_where_no_thread_can_be_started(
    workers: CpuWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        with pytest.raises(KafkaError, match="raise the limit of processes"):
            await workers.run(lambda _: None)
    assert await workers.run(lambda _: "later") == "later"
