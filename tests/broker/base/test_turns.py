"""Long work in steps: others run in between, and the steps of several come in turn."""

from __future__ import annotations

import asyncio

import pytest

from oncelog.broker.base.turns import TURN_SECONDS, Turns


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("oncelog.broker.base.turns.time", clock)
    return clock


async def test_a_turn_ends_when_its_time_is_over(clock: Clock) -> None:
    turns = Turns()
    done: list[object] = []

    def step() -> None:
        clock.now += TURN_SECONDS / 2
        done.append(clock.now)

    for _ in range(5):
        turns.call(step)
    assert not done
    counts = []
    for _ in range(4):
        await asyncio.sleep(0)
        counts.append(len(done))
    assert counts == [2, 4, 5, 5]


async def test_a_step_that_is_added_by_a_step_waits_for_the_next_turn(clock: Clock) -> None:
    turns = Turns()
    done: list[object] = []

    def step() -> None:
        done.append(1)
        turns.call(step)

    turns.call(step)
    for expected in (1, 2, 3):
        await asyncio.sleep(0)
        assert len(done) == expected


async def test_coroutines_take_turns(clock: Clock) -> None:
    turns = Turns()
    done: list[object] = []

    async def work(name: str) -> None:
        for _ in range(3):
            await turns.next()
            done.append(name)

    tasks = [asyncio.ensure_future(work(name)) for name in "ab"]
    per_turn = []
    while not all(task.done() for task in tasks):
        before = len(done)
        await asyncio.sleep(0)
        per_turn.append(len(done) - before)
    assert "".join(map(str, done)) == "ababab"
    assert max(per_turn) == 1, "never two of them in one turn of the loop"


async def test_a_cancelled_coroutine_does_not_keep_the_others_waiting(clock: Clock) -> None:
    turns = Turns()
    done: list[object] = []

    async def work(name: str) -> None:
        await turns.next()
        done.append(name)

    first, second = (asyncio.ensure_future(work(name)) for name in "ab")
    await asyncio.sleep(0)
    first.cancel()
    await second
    assert done == ["b"]


async def test_a_failing_step_does_not_stop_the_others(clock: Clock) -> None:
    turns = Turns()
    done: list[object] = []
    failures: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context["exception"]))

    def fail() -> None:
        raise ZeroDivisionError

    turns.call(fail)
    turns.call(lambda: done.append(1))
    while not done:
        await asyncio.sleep(0)
    assert [type(failure) for failure in failures] == [ZeroDivisionError]
