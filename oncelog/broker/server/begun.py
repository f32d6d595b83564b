"""Coroutines that begin at once, where a task would begin in the next turn of the event loop.

Most requests that may have to wait do not: those need neither a task nor the turn.
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Generator
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

    def __init__(self, coroutine: Coroutine[Any, Any, T], waits_for: object) -> None:
        self._coroutine = coroutine
        self._waits_for = waits_for

    def __await__(self) -> Generator[object, Any, T]:
        waits_for = self._waits_for
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
        """For one that was given up before anybody awaited it."""
        self._coroutine.close()
