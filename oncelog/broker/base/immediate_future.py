"""A result that is not there yet, told to its listener in the very moment in which it is.

An asyncio future tells in the next turn of the event loop. Between a disk and a client there would be several such
turns: one for the flush, one for the task that waits for it, one for the answer. A listener of a promise is called at
once instead, by whoever settles it, and so it must not do more than pass the result on.

A coroutine that a task runs may await a promise as if it were a future; it then goes on in the next turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator
from contextvars import Context
from typing import Any, TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")
Listener = Callable[["Promise[Any]"], object]


class Promise(Awaitable[T]):
    """Settled once, with a value, an error or by being cancelled; what comes after that is not heard."""

    __slots__ = ("_asyncio_future_blocking", "_error", "_listeners", "_settled", "_value")

    def __init__(self) -> None:
        self._asyncio_future_blocking = False
        self._settled = False
        self._value: T
        self._error: BaseException | None = None
        self._listeners: list[Listener] = []

    def done(self) -> bool:
        return self._settled

    def cancelled(self) -> bool:
        return isinstance(self._error, asyncio.CancelledError)

    def result(self) -> T:
        if self._error is not None:
            try:
                raise self._error.with_traceback(None)
            finally:
                # The traceback would hold this frame, and the frame the error.
                del self
        return self._value

    def exception(self) -> BaseException | None:
        return self._error

    def then(self, listener: Listener) -> None:
        """Call the listener with this promise once it is settled, or now if it is."""
        if self._settled:
            _tell(listener, self)
        else:
            self._listeners.append(listener)

    def set_result(self, value: T) -> None:
        if not self._settled:
            self._value = value
            self._settle()

    def set_exception(self, error: BaseException) -> None:
        if not self._settled:
            self._error = error
            self._settle()

    def cancel(self, msg: object = None) -> bool:
        """Nobody wants the result any more; whether that was news."""
        if self._settled:
            return False
        self.set_exception(asyncio.CancelledError() if msg is None else asyncio.CancelledError(msg))
        return True

    def _settle(self) -> None:
        self._settled = True
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            _tell(listener, self)

    # -- what a task that awaits a future asks of it ---------------------------------------------------------

    def __await__(self) -> Generator[Promise[T], None, T]:
        if not self._settled:
            self._asyncio_future_blocking = True
            yield self
        return self.result()

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    def add_done_callback(self, callback: Callable[[Any], object], *, context: Context | None = None) -> None:
        self.then(_InNextTurn(callback, context))

    def remove_done_callback(self, callback: Callable[[Any], object]) -> int:
        kept = [one for one in self._listeners if not (isinstance(one, _InNextTurn) and one.callback == callback)]
        removed_count = len(self._listeners) - len(kept)
        self._listeners = kept
        return removed_count


class _InNextTurn:
    __slots__ = ("_context", "callback")

    def __init__(self, callback: Callable[[Any], object], context: Context | None) -> None:
        self.callback = callback
        self._context = context

    def __call__(self, promise: Promise[Any]) -> None:
        asyncio.get_running_loop().call_soon(self.callback, promise, context=self._context)


def _tell(listener: Listener, promise: Promise[Any]) -> None:
    try:
        listener(promise)
    except Exception:
        # Whoever settles a promise is not to blame, and has others to tell.
        logger.exception("internal error in a callback; please report it")
