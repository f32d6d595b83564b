"""Settles what requests wait for, outside of the code that made it come true.

A sync moves the high watermark of its partition, and with that come requests whose records are committed now. To go on
with them means to run handlers, which may append and ask for the next sync. So the flusher and the partition only
hand the futures in here, and they are settled when the flusher has finished its round, or else in the next iteration
of the event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque

from oncelog.broker.base.immediate_future import Promise


class Completions:
    __slots__ = ("_ready", "_will_run")

    def __init__(self) -> None:
        self._ready: deque[tuple[Promise[None], BaseException | None]] = deque()
        self._will_run = False

    def add(self, future: Promise[None], error: BaseException | None = None) -> None:
        """Settle `future` soon, with `error` if there is one."""
        self._ready.append((future, error))
        if not self._will_run:
            self._schedule()

    def hold(self) -> None:
        """The caller is at work and calls `run` at its end, which saves an iteration of the event loop."""
        self._will_run = True

    def run(self) -> None:
        ready = self._ready
        try:
            while ready:
                future, error = ready.popleft()
                if error is None:
                    future.set_result(None)
                else:
                    future.set_exception(error)
        finally:
            self._will_run = False
            if ready:
                self._schedule()

    def _schedule(self) -> None:
        self._will_run = True
        asyncio.get_running_loop().call_soon(self.run)
