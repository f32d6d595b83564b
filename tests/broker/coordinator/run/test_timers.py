"""Timers: many on one wake-up, moved cheaply, fired in order, by a clock that tests can advance."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Coroutine, Hashable
from typing import Any

import pytest
import uvloop

from oncelog.broker.base.clock import Clock
from oncelog.broker.coordinator.run.timers import TimerQueue


async def turns() -> None:
    """Let the loop run what is due now."""
    for _ in range(3):
        await asyncio.sleep(0.001)


async def test_timers_fire_in_order_when_the_clock_is_advanced() -> None:
    clock = Clock()
    fired: list[Hashable] = []
    timers = TimerQueue(clock, fired.append)
    now_ms = clock.steady_ms()
    timers.set("late", now_ms + 60_000)
    timers.set("early", now_ms + 30_000)
    await turns()
    assert fired == []
    clock.advance(30_000)
    assert fired == ["early"], "whoever asks after the jump finds it done"
    clock.advance(30_000)
    assert fired == ["early", "late"]
    assert len(timers) == 0


async def test_a_timer_that_is_moved_fires_once_at_its_new_time() -> None:
    clock = Clock()
    fired: list[Hashable] = []
    timers = TimerQueue(clock, fired.append)
    now_ms = clock.steady_ms()
    timers.set("moved", now_ms + 10_000)
    timers.set("moved", now_ms + 50_000)
    clock.advance(20_000)
    await turns()
    assert fired == []
    timers.set("moved", now_ms + 25_000)
    clock.advance(10_000)
    await turns()
    assert fired == ["moved"]
    clock.advance(100_000)
    await turns()
    assert fired == ["moved"]


async def test_a_cancelled_timer_does_not_fire_and_may_be_set_again() -> None:
    clock = Clock()
    fired: list[Hashable] = []
    timers = TimerQueue(clock, fired.append)
    timers.set("key", clock.steady_ms() + 10_000)
    timers.cancel("key")
    clock.advance(20_000)
    await turns()
    assert fired == []
    timers.set("key", clock.steady_ms())
    await turns()
    assert fired == ["key"]


async def test_a_timer_may_set_itself_again_when_it_fires() -> None:
    clock = Clock()
    count = 0

    def fire(key: Hashable) -> None:
        nonlocal count
        count += 1
        timers.set(key, clock.steady_ms() + 1000)

    timers = TimerQueue(clock, fire)
    timers.set("tick", clock.steady_ms() + 1000)
    for expected in (1, 2, 3):
        clock.advance(1000)
        await turns()
        assert count == expected
    timers.close()
    clock.advance(10_000)
    await turns()
    assert count == 3


async def test_thousands_of_idle_timers_need_one_wake_up() -> None:
    clock = Clock()
    timers = TimerQueue(clock, lambda _: None)
    base_ms = clock.steady_ms()
    for index in range(10_000):
        timers.set(index, base_ms + 1_000_000 + index)
    assert len(timers) == 10_000
    assert timers._wake_up is not None
    assert timers._wake_up_ms == base_ms + 1_000_000
    timers.close()


@pytest.mark.parametrize("change", ["moved", "cancelled", "closed"])
async def test_a_timer_that_fires_may_move_or_cancel_another_that_is_due_as_well(change: str) -> None:
    clock = Clock()
    fired: list[Hashable] = []
    now_ms = clock.steady_ms()

    def fire(key: Hashable) -> None:
        fired.append(key)
        if key == "first":
            match change:
                case "moved":
                    timers.set("second", now_ms + 50_000)
                case "cancelled":
                    timers.cancel("second")
                case "closed":
                    timers.close()

    timers = TimerQueue(clock, fire)
    timers.set("first", now_ms + 10_000)
    timers.set("second", now_ms + 10_000)
    clock.advance(20_000)
    assert fired == ["first"]
    clock.advance(40_000)
    assert fired == (["first", "second"] if change == "moved" else ["first"])


async def test_a_timer_without_a_delay_that_sets_itself_again_lets_the_loop_go_on() -> None:
    clock = Clock()
    count = 0

    def fire(key: Hashable) -> None:
        nonlocal count
        count += 1
        if count < 3:
            timers.set(key, clock.steady_ms())

    timers = TimerQueue(clock, fire)
    timers.set("again", clock.steady_ms() + 1000)
    clock.advance(1000)
    assert count == 1
    while count < 3:
        await asyncio.sleep(0)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("new_connection", [False, True])
def test_what_lies_in_the_sockets_is_read_before_a_late_timer_fires(
    run: Callable[[Coroutine[Any, Any, None]], None], new_connection: bool
) -> None:
    """A heartbeat came while the loop was held, and the session is over when it goes on."""

    async def scenario() -> None:
        clock = Clock()
        fired: list[Hashable] = []
        moved = asyncio.Event()
        timers = TimerQueue(clock, fired.append)

        class Session(asyncio.Protocol):
            def data_received(self, data: bytes) -> None:
                timers.set("session", clock.steady_ms() + 60_000)
                moved.set()

        server = await asyncio.get_running_loop().create_server(Session, "127.0.0.1", 0)
        address = server.sockets[0].getsockname()
        client = socket.create_connection(address)
        await turns()
        timers.set("session", clock.steady_ms() + 10)
        if new_connection:
            client.close()
            client = socket.create_connection(address)
        client.send(b"heartbeat")
        time.sleep(0.1)
        await moved.wait()
        client.close()
        timers.close()
        server.close()
        assert fired == []

    run(scenario())
