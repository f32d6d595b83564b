"""Threads for work of which a client decides how long it takes, such as checking a compressed batch.

A job starts in the first tier, which has a thread for every core but the event loop's. One that needs more than
`FIRST_TIER_SECONDS` of CPU time is given up there, and starts again in the second tier, whose one thread takes the
long jobs in turn. So jobs of the usual length wait for each other only, and what jobs under way keep in memory does
not grow with the number of clients. Restarting costs a long job little, and nothing has to be kept of it meanwhile.

A job has to release the GIL while it works, and to call its checkpoint every few milliseconds.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from oncelog.broker.base.immediate_future import Promise
from oncelog.protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)

T = TypeVar("T")

FIRST_TIER_SECONDS = 0.05

Checkpoint = Callable[[], None]


class _GivenUpError(Exception):
    """Nobody waits for the job any more."""


class _TooLongError(Exception):
    """The job is one for the second tier."""


class _Job(Promise[T]):
    """A promise of what the work returns. Cancelling it ends the work at its next checkpoint."""

    __slots__ = ("_ends_at", "error", "value", "work")

    def __init__(self, work: Callable[[Checkpoint], T]) -> None:
        super().__init__()
        self.work = work
        self.value: T
        self.error: BaseException | None = None
        self._ends_at = 0.0

    def run(self, seconds_max: float) -> None:
        """Done by a thread, which leaves it to the event loop to settle the promise."""
        self._ends_at = time.thread_time() + seconds_max
        try:
            self._checkpoint()
            self.value = self.work(self._checkpoint)
            self.error = None
        except BaseException as error:
            self.error = error

    def _checkpoint(self) -> None:
        if self.done():
            raise _GivenUpError
        if time.thread_time() > self._ends_at:
            raise _TooLongError


class CpuWorkers:
    def __init__(self) -> None:
        self._first = _Tier("oncelog-cpu", max(1, _core_count() - 1), FIRST_TIER_SECONDS, self._take_done)
        self._second = _Tier("oncelog-cpu-long", 1, float("inf"), self._take_done)
        self._jobs: set[_Job[Any]] = set()
        self._closed = False

    def run(self, work: Callable[[Checkpoint], T]) -> Promise[T]:
        """A promise of the result of `work`, which may be started twice."""
        job = _Job(work)
        if self._closed:
            job.cancel()
        else:
            self._put(self._first, job)
        return job

    def _put(self, tier: _Tier, job: _Job[Any]) -> None:
        try:
            tier.put(job)
        except RuntimeError as error:
            self._jobs.discard(job)
            reason = f"a thread to check batches cannot be started, raise the limit of processes: {error}"
            logger.error("%s", reason)
            job.set_exception(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, reason))
        else:
            self._jobs.add(job)

    def close(self) -> None:
        """Give up all jobs, and wait until the threads have noticed."""
        self._closed = True
        for job in list(self._jobs):
            job.cancel()
        self._first.close()
        self._second.close()

    def _take_done(self, job: _Job[Any]) -> None:
        # The traceback of an error refers to all that the job had in memory.
        error, job.error = job.error, None
        if isinstance(error, _TooLongError) and not self._closed:
            self._put(self._second, job)
            return
        self._jobs.discard(job)
        if error is None:
            job.set_result(job.value)
        else:
            job.set_exception(error)


class _Tier:
    """Threads with a queue. They start with the first jobs."""

    def __init__(self, name: str, threads_max: int, seconds_max: float, on_done: Callable[[_Job[Any]], None]) -> None:
        self._name = name
        self._threads_max = threads_max
        self._seconds_max = seconds_max
        self._on_done = on_done
        self._queue: SimpleQueue[_Job[Any] | None] = SimpleQueue()
        self._under_way_count = 0
        self._threads: list[Thread] = []

    def put(self, job: _Job[Any]) -> None:
        """RuntimeError if no thread can be started to do it."""
        if len(self._threads) < min(self._under_way_count + 1, self._threads_max):
            self._start_thread()
        self._under_way_count += 1
        self._queue.put(job)

    def _start_thread(self) -> None:
        name = f"{self._name}-{len(self._threads)}"
        thread = Thread(target=self._work, args=(asyncio.get_running_loop(),), name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            if not self._threads:
                raise
        else:
            self._threads.append(thread)

    def close(self) -> None:
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        while (job := self._queue.get()) is not None:
            job.run(self._seconds_max)
            try:
                loop.call_soon_threadsafe(self._take_done, job)
            except RuntimeError:
                # The loop is closed, and nobody is left to be told.
                return

    def _take_done(self, job: _Job[Any]) -> None:
        self._under_way_count -= 1
        self._on_done(job)


def _core_count() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
