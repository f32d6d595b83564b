"""The time, as one object that is handed around, so that tests can bring their own.

wall_ms      what is stored in files and shown to people; an administrator or NTP may set it at any moment
steady_ms    what the deadlines and ages of sessions, transactions and offsets are measured with
monotonic    how long something took
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from oncelog.broker.base.now import Now


class Clock:
    def __init__(self, served_seconds: Callable[[], float] = time.monotonic) -> None:
        """`served_seconds` is monotonic time without what the event loop has lost (`LoopWatch`)."""
        self._served_seconds = served_seconds
        self._advanced_ms = 0
        self._jump_listeners: list[Callable[[], None]] = []

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self._advanced_ms

    def steady_ms(self) -> int:
        """Never goes back, and leaves out time in which the event loop could not serve clients."""
        return int(self._served_seconds() * 1000) + self._advanced_ms

    def now(self) -> Now:
        return Now(self.wall_ms(), self.steady_ms())

    def monotonic(self) -> float:
        """Seconds that never go back, for measuring how long something took."""
        return time.monotonic()

    def on_jump(self, listener: Callable[[], None]) -> None:
        """Have `listener` called when the time jumps, which only a clock for tests does."""
        self._jump_listeners.append(listener)

    def forget_jump(self, listener: Callable[[], None]) -> None:
        self._jump_listeners.remove(listener)

    def advance(self, duration_ms: int) -> None:
        """Let time pass at once: what was due in between happens before this returns."""
        self._advanced_ms += duration_ms
        for listener in list(self._jump_listeners):
            listener()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
