"""Requests that wait: for their records to be committed, or, as long polls, for records to come.

Nothing here polls. A partition settles its waiters when its high watermark moves or when it fails.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

from oncelog.broker.base.completions import Completions
from oncelog.broker.base.immediate_future import Promise
from oncelog.protocol.errors import KafkaError

logger = logging.getLogger(__name__)

T = TypeVar("T")


class CommitWaiters:
    """Futures of one partition in the order of the offsets that they wait for."""

    __slots__ = ("_completions", "_waiting")

    def __init__(self, completions: Completions) -> None:
        self._completions = completions
        self._waiting: deque[tuple[int, Promise[None]]] = deque()

    def add(self, offset: int) -> Promise[None]:
        """A future that is settled once the high watermark has reached `offset`. A retry of an old batch asks for less
        than the newest waiter, which then merely keeps it waiting a moment longer."""
        future: Promise[None] = Promise()
        self._waiting.append((offset, future))
        return future

    def reached(self, high_watermark: int) -> None:
        waiting = self._waiting
        while waiting and waiting[0][0] <= high_watermark:
            self._completions.add(waiting.popleft()[1])

    def fail(self, error: KafkaError) -> None:
        waiting, self._waiting = self._waiting, deque()
        for _, future in waiting:
            self._completions.add(future, KafkaError(error.code, error.message))


class AckTimeouts:
    """One timer for all acks that wait: nearly all of them come long before their time is over."""

    __slots__ = ("_due", "_timer", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[AckCountdown[Any], tuple[float, Callable[[], None]]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0

    def add(self, countdown: AckCountdown[Any], timeout_ms: int, on_expired: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + max(timeout_ms, 0) / 1000
        self._waiting[countdown] = due, on_expired
        self._wake_by(loop, due)

    def discard(self, countdown: AckCountdown[Any]) -> None:
        self._waiting.pop(countdown, None)

    def _wake_by(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        if self._timer is not None:
            if self._due <= due:
                return
            self._timer.cancel()
        self._due = due
        self._timer = loop.call_at(due, self._expire)

    def _expire(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        now = max(loop.time(), self._due)
        for countdown, (due, on_expired) in list(self._waiting.items()):
            # One that has just expired may have ended this one.
            if due <= now and countdown in self._waiting:
                try:
                    on_expired()
                except Exception:
                    logger.exception("internal error while a request timed out; please report it")
                countdown.finish()
        if self._waiting:
            self._wake_by(loop, min(due for due, _ in self._waiting.values()))


class AckCountdown(Promise[T]):
    """Gives `value` once as many calls of `arrived` have come as were expected."""

    __slots__ = ("_given", "_remaining", "_timeouts")

    def __init__(self, value: T) -> None:
        super().__init__()
        self._given = value
        self._remaining = 0
        self._timeouts: AckTimeouts | None = None

    def expect(self) -> None:
        self._remaining += 1

    def arrived(self) -> None:
        self._remaining -= 1
        if not self._remaining:
            self.finish()

    def expire_after(self, timeouts: AckTimeouts, timeout_ms: int, on_expired: Callable[[], None]) -> None:
        """Give the value after that time in any case, having told so first."""
        self._timeouts = timeouts
        timeouts.add(self, timeout_ms, on_expired)

    def finish(self) -> None:
        """Give the value now."""
        if self._timeouts is not None:
            self._timeouts.discard(self)
        self.set_result(self._given)


class Watched(Protocol):
    """Something that calls `FetchWaiter.grew`: a partition."""

    fetch_waiters: set[FetchWaiter]


class FetchWaiter:
    """A long poll: done when enough bytes came to any of its partitions, when one fails, or by time."""

    __slots__ = ("_missing_bytes", "_partitions", "_timer", "future")

    def __init__(self, partitions: Iterable[Watched], missing_bytes: int, wait_ms: float) -> None:
        loop = asyncio.get_running_loop()
        self.future: asyncio.Future[None] = loop.create_future()
        self._partitions = list(partitions)
        self._missing_bytes = missing_bytes
        self._timer = loop.call_later(wait_ms / 1000, self._finish)
        self.future.add_done_callback(self._detach)
        for partition in self._partitions:
            partition.fetch_waiters.add(self)

    def watch(self, partition: Watched) -> None:
        """Wait for one more partition."""
        self._partitions.append(partition)
        partition.fetch_waiters.add(self)

    def grew(self, size_bytes: int) -> None:
        self._missing_bytes -= size_bytes
        if self._missing_bytes <= 0:
            self._finish()

    def wake(self) -> None:
        """Something other than new records happened to a partition: let the fetch look again."""
        self._finish()

    def _finish(self) -> None:
        if not self.future.done():
            self.future.set_result(None)

    def _detach(self, _: asyncio.Future[None]) -> None:
        self._timer.cancel()
        for partition in self._partitions:
            partition.fetch_waiters.discard(self)
