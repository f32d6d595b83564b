"""The time, as one object that is handed around, so that tests can bring their own."""

from __future__ import annotations

import time


class Clock:
    def now_ms(self) -> int:
        """Wall-clock time, as it stands in records and answers."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Seconds that never go back, for measuring how long something took."""
        return time.monotonic()
