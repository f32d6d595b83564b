"""Coroutines that begin at once, where a task would begin in the next turn of the event loop.

Most requests that may have to wait do not: those need neither a task nor the turn. Up to where it first waits, a
coroutine has no task: `asyncio.current_task()` is None there.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Coroutine, Generator
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


def begin(coroutine: Coroutine[Any, Any, T]) -> T | Begun[T]:
    """Run it until it waits: its result if it does not, else the rest of it."""
    try:
        waits_for = coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    return Begun(coroutine, waits_for)


class Begun(Awaitable[T]):
    """The rest of a coroutine that waits for its first future, as something that a task can await."""

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

    def cancel(self) -> None:
        """For one that was given up before anybody awaited it: it hears of it as one in a task would."""
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
