"""Many timers on one wake-up of the event loop.

Timers are moved far more often than they fire (every heartbeat moves one), so moving is a dictionary write. The
heap may then hold an outdated, earlier deadline; when that comes up it is put back at the right place.

Before anything fires, the loop polls its sockets a few times: after a stall, a heartbeat or an EndTxn that came in time
may still be in a socket's buffer, and event loops differ in what they do first, reading or timers.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Hashable
from itertools import count

from oncelog.broker.base.clock import Clock

POLLS_BEFORE_FIRING = 8
"""asyncio needs four turns to accept a connection and to handle the first request on it."""


class TimerQueue:
    def __init__(self, clock: Clock, fire: Callable[[Hashable], None]) -> None:
        self._clock = clock
        self._fire = fire
        self._deadlines: dict[Hashable, int] = {}
        self._heap: list[tuple[int, int, Hashable]] = []
        self._queued: dict[Hashable, int] = {}
        """The earliest deadline that the heap has for a key."""
        self._order = count()
        self._wake_up: asyncio.Handle | None = None
        self._wake_up_ms = 0
        self._closed = False
        clock.on_jump(self._time_jumped)

    def __len__(self) -> int:
        return len(self._deadlines)

    def set(self, key: Hashable, deadline_ms: int) -> None:
        self._deadlines[key] = deadline_ms
        queued = self._queued.get(key)
        if queued is None or deadline_ms < queued:
            self._push(key, deadline_ms)
            self._arm()

    def cancel(self, key: Hashable) -> None:
        self._deadlines.pop(key, None)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._deadlines.clear()
        self._clock.forget_jump(self._time_jumped)
        if self._wake_up:
            self._wake_up.cancel()

    def _push(self, key: Hashable, deadline_ms: int) -> None:
        self._queued[key] = deadline_ms
        heapq.heappush(self._heap, (deadline_ms, next(self._order), key))

    def _arm(self) -> None:
        """Wake up at the earliest deadline in the heap."""
        if not self._heap or self._closed:
            return
        earliest_ms = self._heap[0][0]
        if self._wake_up is not None:
            if self._wake_up_ms <= earliest_ms:
                return
            self._wake_up.cancel()
        self._wake_up_ms = earliest_ms
        delay_ms = max(0, earliest_ms - self._clock.steady_ms())
        self._wake_up = asyncio.get_running_loop().call_later(delay_ms / 1000, self._poll, POLLS_BEFORE_FIRING)

    def _poll(self, polls_left: int) -> None:
        """Let the loop read what has come, then fire what is still due."""
        if polls_left and self._heap and self._heap[0][0] <= self._clock.steady_ms():
            self._wake_up = asyncio.get_running_loop().call_soon(self._poll, polls_left - 1)
        else:
            self._run_due()

    def _time_jumped(self) -> None:
        """What is due now fires at once: a request that comes after the jump must find it done."""
        if self._wake_up is not None:
            self._wake_up.cancel()
        self._run_due()

    def _run_due(self) -> None:
        """A timer that is set meanwhile waits for the next wake-up, so one without a delay cannot hold the loop."""
        self._wake_up = None
        now_ms = self._clock.steady_ms()
        due: list[Hashable] = []
        while self._heap and self._heap[0][0] <= now_ms:
            queued_ms, _, key = heapq.heappop(self._heap)
            if self._queued.get(key) != queued_ms:
                continue
            del self._queued[key]
            deadline_ms = self._deadlines.get(key)
            if deadline_ms is None:
                continue
            if deadline_ms > now_ms:
                self._push(key, deadline_ms)
            else:
                due.append(key)
        for key in due:
            # One that has just fired may have moved this one, or cancelled it.
            if self._deadlines.get(key, now_ms + 1) <= now_ms:
                del self._deadlines[key]
                self._fire(key)
        self._arm()
