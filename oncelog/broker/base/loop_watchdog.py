"""Measures how late the event loop is, how much time it has lost, and says what held it.

A tick is due every 20 ms. If it comes late, a callback held the loop, or the process was stopped or starved. Up to
`LAG_SECONDS_TOLERATED` counts as normal; whatever is beyond that is lost time. Clients could not be served then, so
`served_seconds`, which their deadlines are measured with, leaves it out for good.

A thread looks at the loop's stack while a tick is overdue, so that the log can name the code that held the loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

logger = logging.getLogger(__name__)

TICK_SECONDS = 0.02
LAG_SECONDS_TOLERATED = 0.05
LOOK_SECONDS = 0.05
LOGGED_LAG_SECONDS_MIN = 0.1
LOG_SECONDS = 1.0
"""At most one line in this time; stalls in between are counted."""
FRAMES_NAMED = 4

_PACKAGE = os.sep + "oncelog" + os.sep


class LoopWatch:
    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._last_tick = 0.0
        self._next_tick: asyncio.TimerHandle | None = None
        self._last_cpu = 0.0
        self.lag_seconds_max = 0.0
        """The latest that a tick has come since the start."""
        self.computing_seconds_max = 0.0
        """The part of such a lag in which the loop's thread computed. A starved machine makes ticks late, too."""
        self.lost_seconds = 0.0
        """The sum of all delays of ticks, without what is tolerated."""
        self._sampler: threading.Thread | None = None
        self._stopping = threading.Event()
        self._sample: str | None = None
        self._logged_at = -LOG_SECONDS
        self._unlogged = 0

    def start(self) -> None:
        """Watch the running event loop."""
        self._last_tick = self._monotonic()
        self._last_cpu = time.thread_time()
        self._schedule_tick()
        self._stopping.clear()
        self._sampler = threading.Thread(
            target=self._sample_stack, args=(threading.get_ident(),), name="oncelog-loop-watch", daemon=True
        )
        self._sampler.start()

    def stop(self) -> None:
        if self._sampler is not None:
            self._stopping.set()
            self._sampler.join()
            self._sampler = None
        if self._next_tick is not None:
            self.lost_seconds += self._overdue_seconds(self._monotonic())
            self._next_tick.cancel()
            self._next_tick = None

    def served_seconds(self) -> float:
        """Monotonic time without the time that the loop has lost. It never goes back, and never runs ahead of the
        last tick by more than a late tick would be tolerated."""
        now = self._monotonic()
        return now - self.lost_seconds - self._overdue_seconds(now)

    def served_until_tick(self) -> float:
        """Served time as of the last tick: cheaper than `served_seconds`, and exact to 20 ms."""
        return self._last_tick - self.lost_seconds

    def _overdue_seconds(self, now: float) -> float:
        """How much time is lost since the last tick."""
        if self._next_tick is None:
            return 0.0
        return max(0.0, now - self._last_tick - TICK_SECONDS - LAG_SECONDS_TOLERATED)

    def _on_tick(self) -> None:
        now = self._monotonic()
        cpu = time.thread_time()
        lag_seconds = now - self._last_tick - TICK_SECONDS
        computing_seconds = min(lag_seconds, cpu - self._last_cpu)
        self.lag_seconds_max = max(self.lag_seconds_max, lag_seconds)
        self.computing_seconds_max = max(self.computing_seconds_max, computing_seconds)
        if lag_seconds > LAG_SECONDS_TOLERATED:
            self.lost_seconds += self._overdue_seconds(now)
            self._log(lag_seconds, computing_seconds, now)
        self._last_tick = now
        self._last_cpu = cpu
        self._schedule_tick()

    def _log(self, lag_seconds: float, computing_seconds: float, now: float) -> None:
        sample, self._sample = self._sample, None
        if lag_seconds < LOGGED_LAG_SECONDS_MIN:
            return
        if now - self._logged_at < LOG_SECONDS:
            self._unlogged += 1
            return
        logger.warning(
            "event loop blocked for %d ms, computing for %d ms of them, at %s (%d more since the last report)",
            lag_seconds * 1000,
            computing_seconds * 1000,
            sample or "an unknown place: the process was stopped or starved of CPU",
            self._unlogged,
        )
        self._logged_at = now
        self._unlogged = 0

    def _sample_stack(self, loop_thread: int) -> None:
        """What the thread does."""
        while not self._stopping.wait(LOOK_SECONDS):
            if self._monotonic() - self._last_tick > TICK_SECONDS + LAG_SECONDS_TOLERATED:
                frame = sys._current_frames().get(loop_thread)
                self._sample = _describe(frame) if frame is not None else None
                del frame

    def _schedule_tick(self) -> None:
        self._next_tick = asyncio.get_running_loop().call_later(TICK_SECONDS, self._on_tick)


def _describe(frame: FrameType | None) -> str:
    """The innermost calls of our own code: `fetch.py:210 _read, called by fetch.py:61 handle, …`."""
    names: list[str] = []
    while frame is not None and len(names) < FRAMES_NAMED:
        code = frame.f_code
        if _PACKAGE in code.co_filename:
            names.append(f"{os.path.basename(code.co_filename)}:{frame.f_lineno} {code.co_name}")
        frame = frame.f_back
    return ", called by ".join(names) or "code outside of oncelog"
