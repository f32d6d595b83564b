"""Long work on the event loop, a few milliseconds at a time.

The loop serves every connection. Work whose length a client decides (a request with thousands of partitions, many
requests sent at once) is cut into steps. The steps of all such work wait in one queue, and in each turn of the loop
only as many run as fit into `TURN_SECONDS`. In between the loop reads from its sockets, so the requests of other
clients are answered as they come.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

from oncelog.broker.base.immediate_future import Promise

TURN_SECONDS = 0.005


class Turns:
    def __init__(self) -> None:
        self._steps: deque[Callable[[], None] | Promise[None]] = deque()
        self._is_scheduled = False

    def call(self, step: Callable[[], None]) -> None:
        """Run `step` when its turn has come: after the steps that wait already, and not before the next turn."""
        self._add(step)

    def next(self) -> Promise[None]:
        """Await this between two steps of a coroutine."""
        promise: Promise[None] = Promise()
        self._add(promise)
        return promise

    def _add(self, step: Callable[[], None] | Promise[None]) -> None:
        self._steps.append(step)
        if not self._is_scheduled:
            self._schedule()

    def _schedule(self) -> None:
        self._is_scheduled = True
        asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        self._is_scheduled = False
        ends_at = time.perf_counter() + TURN_SECONDS
        try:
            # Steps that are added meanwhile belong to a later turn.
            for _ in range(len(self._steps)):
                step = self._steps.popleft()
                if isinstance(step, Promise):
                    step.set_result(None)
                    # A task goes on after this function has returned; nothing else may start before it.
                    break
                step()
                if time.perf_counter() >= ends_at:
                    break
        finally:
            if self._steps and not self._is_scheduled:
                self._schedule()


class Pace:
    """Tells work with many steps when to let others run: `if pace.is_over: await pace.rest()`."""

    __slots__ = ("_ends_at", "_turns")

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._ends_at = time.perf_counter() + TURN_SECONDS

    @property
    def is_over(self) -> bool:
        return time.perf_counter() >= self._ends_at

    async def rest(self) -> None:
        await self._turns.next()
        self._ends_at = time.perf_counter() + TURN_SECONDS
