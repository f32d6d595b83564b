"""The time, as one object that is handed around, so that tests can bring their own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


class Clock:
    def __init__(self) -> None:
        self._steady_base_ms = self.now_ms() - int(self.monotonic() * 1000)
        self._jump_listeners: list[Callable[[], None]] = []

    def now_ms(self) -> int:
        """Wall-clock time, as it stands in records and answers."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Seconds that never go back, for measuring how long something took."""
        return time.monotonic()

    def steady_ms(self) -> int:
        """Wall-clock time as of the start, advanced by the monotonic clock: timeouts and sessions go by it, so
        that a corrected system clock neither expires nor immortalises anybody."""
        return self._steady_base_ms + int(self.monotonic() * 1000)

    def on_jump(self, listener: Callable[[], None]) -> None:
        """Have `listener` called when the time jumps, which only a clock for tests does."""
        self._jump_listeners.append(listener)

    def forget_jump(self, listener: Callable[[], None]) -> None:
        self._jump_listeners.remove(listener)

    def advance(self, duration_ms: int) -> None:
        """Let time pass at once: what was due in between happens before this returns."""
        self._steady_base_ms += duration_ms
        for listener in list(self._jump_listeners):
            listener()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
