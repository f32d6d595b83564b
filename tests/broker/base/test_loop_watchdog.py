"""Ticks of the event loop: how late they are, and the time that this costs."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from oncelog.broker.base import loop_watchdog
from oncelog.broker.base.loop_watchdog import LAG_SECONDS_TOLERATED, TICK_SECONDS, LoopWatch

SLACK = TICK_SECONDS + LAG_SECONDS_TOLERATED
STALL = 0.4

Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    chosen: Run = request.param
    return chosen


async def until_ticked(watch: LoopWatch) -> None:
    """Two ticks: the one that is due, and one after it."""
    for _ in range(2):
        before = watch._last_tick
        while watch._last_tick == before:
            await asyncio.sleep(0.001)


def test_a_stall_is_lost_time(run: Run) -> None:
    async def scenario() -> None:
        watch = LoopWatch()
        watch.start()
        await until_ticked(watch)
        served, lost = watch.served_seconds(), watch.lost_seconds
        time.sleep(STALL)
        assert watch.served_seconds() - served <= SLACK + 0.001, "even before the late tick"
        stalled = watch.served_seconds()
        await until_ticked(watch)
        assert watch.served_seconds() >= stalled
        assert watch.lost_seconds - lost >= STALL - SLACK - 0.001
        assert watch.lag_seconds_max >= STALL - SLACK
        watch.stop()

    run(scenario())


class Ticks:
    """Calls the tick by hand, at times of the test's choice."""

    def __init__(self) -> None:
        self.now = 100.0
        self.watch = LoopWatch(lambda: self.now)

    def pass_time(self, seconds: float, *, tick: bool = True) -> None:
        self.now += seconds
        if tick:
            assert self.watch._next_tick is not None
            self.watch._next_tick.cancel()
            self.watch._on_tick()


async def test_served_time_is_monotonic_time_while_ticks_come_in_time() -> None:
    ticks = Ticks()
    ticks.watch.start()
    for _ in range(50):
        ticks.pass_time(TICK_SECONDS + LAG_SECONDS_TOLERATED / 2)
        assert ticks.watch.served_seconds() == pytest.approx(ticks.now)
        assert ticks.watch.served_until_tick() == pytest.approx(ticks.now)
    assert ticks.watch.lost_seconds == 0
    ticks.watch.stop()


async def test_served_time_stands_still_in_a_stall_and_does_not_catch_up() -> None:
    ticks = Ticks()
    watch = ticks.watch
    watch.start()
    ticks.pass_time(1.0, tick=False)
    assert watch.served_seconds() == pytest.approx(100 + SLACK)
    ticks.pass_time(59.0)
    assert watch.served_seconds() == watch.served_until_tick() == pytest.approx(100 + SLACK)
    assert watch.lost_seconds == pytest.approx(60 - SLACK)
    ticks.pass_time(TICK_SECONDS)
    assert watch.served_seconds() == pytest.approx(100 + SLACK + TICK_SECONDS)
    watch.stop()


async def test_nothing_is_lost_while_nobody_watches() -> None:
    ticks = Ticks()
    watch = ticks.watch
    ticks.pass_time(60, tick=False)
    assert watch.served_seconds() == 160
    watch.start()
    ticks.pass_time(1, tick=False)
    watch.stop()
    stopped = watch.served_seconds()
    ticks.pass_time(60, tick=False)
    assert watch.served_seconds() == pytest.approx(stopped + 60)


def hold_the_loop(seconds: float) -> None:
    time.sleep(seconds)


def test_the_log_names_the_code_that_held_the_loop(
    run: Run, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_watchdog, "_PACKAGE", __file__)

    async def scenario() -> None:
        watch = LoopWatch()
        watch.start()
        await until_ticked(watch)
        hold_the_loop(STALL)
        await until_ticked(watch)
        watch.stop()

    with caplog.at_level(logging.WARNING, logger=loop_watchdog.__name__):
        run(scenario())
    (entry,) = caplog.records
    expected = r"event loop blocked for \d+ ms, computing for \d+ ms of them, at .*hold_the_loop.* \(0 more since .*\)"
    assert re.fullmatch(expected, entry.getMessage())


async def test_the_log_has_one_line_a_second(caplog: pytest.LogCaptureFixture) -> None:
    ticks = Ticks()
    ticks.watch.start()
    with caplog.at_level(logging.WARNING, logger=loop_watchdog.__name__):
        for _ in range(5):
            ticks.pass_time(0.3)
        ticks.pass_time(1.0)
    ticks.watch.stop()
    said = [entry.getMessage().rsplit("(", 1)[1] for entry in caplog.records]
    assert said == [f"{count} more since the last report)" for count in (0, 3, 0)]


async def test_the_sampling_thread_ends_with_the_watch() -> None:
    # A broker that other tests share may run its own watch in this process.
    before = set(threading.enumerate())
    watch = LoopWatch()
    watch.start()
    (sampler,) = set(threading.enumerate()) - before
    assert sampler.name == "oncelog-loop-watch"
    watch.stop()
    assert not sampler.is_alive()
