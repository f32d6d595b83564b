"""Coroutines that begin at once: what they return, raise and are told is what a task would have had."""

from __future__ import annotations

import asyncio

import pytest

from oncelog.broker.server.begun import Begun, begin


async def test_what_does_not_wait_is_done_at_once() -> None:
    async def answer() -> int:
        return 42

    assert begin(answer()) == 42


async def test_what_fails_before_it_waits_fails_at_once() -> None:
    async def refuse() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        begin(refuse())


async def test_the_rest_runs_when_what_it_waits_for_is_there() -> None:
    first: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def add() -> int:
        value = await first
        await asyncio.sleep(0)
        return value + await asyncio.to_thread(lambda: 1)

    rest = begin(add())
    assert isinstance(rest, Begun)
    task = asyncio.ensure_future(rest)
    first.set_result(41)
    assert await task == 42


async def test_a_failure_while_waiting_reaches_the_coroutine_and_may_be_handled_there() -> None:
    first: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def handle() -> str:
        try:
            await first
        except ValueError as error:
            return str(error)
        return "nothing"

    rest = begin(handle())
    assert isinstance(rest, Begun)
    first.set_exception(ValueError("late"))
    assert await rest == "late"


async def test_a_cancelled_task_cancels_the_coroutine() -> None:
    told: list[str] = []

    async def wait() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            told.append("cancelled")
            raise

    rest = begin(wait())
    assert isinstance(rest, Begun)
    task = asyncio.ensure_future(rest)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert told == ["cancelled"]


async def test_one_that_is_given_up_before_it_was_awaited_is_cancelled_with_its_future() -> None:
    first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    told: list[str] = []

    async def wait() -> None:
        try:
            await first
        except asyncio.CancelledError:
            told.append("cancelled")
            raise

    rest = begin(wait())
    assert isinstance(rest, Begun)
    rest.cancel()
    rest.cancel()
    assert told == ["cancelled"]
    assert first.cancelled()


async def test_two_may_wait_for_the_same_future() -> None:
    shared: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def wait() -> int:
        return await shared

    rests = [begin(wait()) for _ in range(2)]
    tasks = [asyncio.ensure_future(rest) for rest in rests if isinstance(rest, Begun)]
    shared.set_result(42)
    assert await asyncio.gather(*tasks) == [42, 42]


async def test_a_coroutine_may_first_let_others_go_on() -> None:
    async def pause() -> int:
        await asyncio.sleep(0)
        return 42

    rest = begin(pause())
    assert isinstance(rest, Begun)
    assert await rest == 42
