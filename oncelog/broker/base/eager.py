"""Coroutines that begin at once, where a task would begin in the next turn of the event loop.

Most requests that may have to wait do not: those need neither a task nor the turn. One that waits for a promise goes
on in the moment in which the promise is settled. Only what waits for a future of asyncio gets a task for the rest of
its way; before that, `asyncio.current_task()` is None.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Coroutine, Generator
from contextlib import suppress
from typing import Any, TypeVar

from oncelog.broker.base.immediate_future import Promise

T = TypeVar("T")


def begin(coroutine: Coroutine[Any, Any, T]) -> T | Begun[T]:
    """Run it until it waits: its result if it does not, else a promise of it."""
    try:
        waits_for = coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    return Begun(coroutine, waits_for)


def spawn(coroutine: Coroutine[Any, Any, T]) -> Promise[T]:
    """As `begin`, for a coroutine that usually waits: a promise in any case, of its error too."""
    try:
        result = begin(coroutine)
    except Exception as error:
        failed: Promise[T] = Promise()
        failed.set_exception(error)
        return failed
    if isinstance(result, Promise):
        return result
    settled: Promise[T] = Promise()
    settled.set_result(result)
    return settled


class Begun(Promise[T]):
    """What the rest of a coroutine will return; its cancellation reaches the coroutine as that of a task would."""

    __slots__ = ("_coroutine", "_waits_for")

    def __init__(self, coroutine: Coroutine[Any, Any, T], waits_for: Any) -> None:
        super().__init__()
        self._coroutine = coroutine
        self._wait_for(waits_for)

    def cancel(self, msg: object = None) -> bool:
        return self._waits_for.cancel(msg)

    def _wait_for(self, waits_for: Any) -> None:
        self._waits_for: Promise[Any] | asyncio.Task[T]
        if isinstance(waits_for, Promise):
            self._waits_for = waits_for
            waits_for.then(self._go_on)
            return
        rest = _Rest(self._coroutine, waits_for)
        self._waits_for = asyncio.ensure_future(rest)
        self._waits_for.add_done_callback(lambda task: self._take_over(task, rest))

    def _go_on(self, _: Promise[Any]) -> None:
        try:
            # What it waited for gives it the result, or raises.
            waits_for = self._coroutine.send(None)
        except StopIteration as end:
            self.set_result(end.value)
        except BaseException as error:
            # Whoever awaits this must hear of it: a coroutine that has ended can no longer be cancelled.
            self.set_exception(error)
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
        else:
            self._wait_for(waits_for)

    def _take_over(self, task: asyncio.Task[T], rest: _Rest[T]) -> None:
        if task.cancelled():
            try:
                rest.close()
            finally:
                super().cancel()
        elif (error := task.exception()) is not None:
            self.set_exception(error)
        else:
            self.set_result(task.result())


class _Rest(Awaitable[T]):
    """The rest of a coroutine that waits for a future, as something that a task can await."""

    __slots__ = ("_coroutine", "_waits_for")

    def __init__(self, coroutine: Coroutine[Any, Any, T], waits_for: asyncio.Future[Any] | None) -> None:
        self._coroutine = coroutine
        self._waits_for = waits_for
        self._mark(False)

    def __await__(self) -> Generator[object, Any, T]:
        waits_for: object = self._waits_for
        self._mark(True)
        try:
            while True:
                try:
                    value = yield waits_for
                except BaseException as error:
                    waits_for = self._coroutine.throw(error)
                else:
                    waits_for = self._coroutine.send(value)
        except StopIteration as end:
            result: T = end.value
            return result

    def close(self) -> None:
        """For one whose task was cancelled before it began: the coroutine hears of it all the same."""
        if inspect.getcoroutinestate(self._coroutine) != inspect.CORO_SUSPENDED:
            return
        if self._waits_for is not None:
            self._waits_for.cancel()
        with suppress(asyncio.CancelledError, StopIteration):
            self._coroutine.throw(asyncio.CancelledError())
        self._coroutine.close()

    def _mark(self, blocking: bool) -> None:
        """A future says with this mark that whoever got it by a yield waits for it; another may do so until we do."""
        if self._waits_for is not None:
            self._waits_for._asyncio_future_blocking = blocking
