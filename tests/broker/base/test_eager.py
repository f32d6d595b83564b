"""Coroutines that begin at once: what they return, raise and are told is what a task would have had."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from oncelog.broker.base.eager import Begun, begin
from oncelog.broker.base.immediate_future import Promise


async def wait_for(awaited: Awaitable[None], told: list[str]) -> None:
    """Tells of its cancellation."""
    try:
        await awaited
    except asyncio.CancelledError:
        told.append("cancelled")
        raise


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
    rest = begin(wait_for(asyncio.get_running_loop().create_future(), told))
    assert isinstance(rest, Begun)
    task = asyncio.ensure_future(rest)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert told == ["cancelled"]


async def test_one_that_is_given_up_at_once_is_cancelled_with_its_future() -> None:
    first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    told: list[str] = []
    rest = begin(wait_for(first, told))
    assert isinstance(rest, Begun)
    rest.cancel()
    rest.cancel()
    with pytest.raises(asyncio.CancelledError):
        await rest
    assert told == ["cancelled"]
    assert first.cancelled()


async def test_what_waits_for_a_promise_goes_on_in_the_moment_in_which_it_is_settled() -> None:
    first: Promise[int] = Promise()
    second: Promise[int] = Promise()

    async def add() -> int:
        return await first + await second

    rest = begin(add())
    assert isinstance(rest, Begun)
    first.set_result(40)
    assert not rest.done()
    second.set_result(2)
    assert rest.result() == 42


async def test_a_promise_that_fails_fails_what_waits_for_it() -> None:
    first: Promise[int] = Promise()

    async def wait() -> int:
        return await first

    rest = begin(wait())
    assert isinstance(rest, Begun)
    first.set_exception(ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        rest.result()


async def test_one_that_waits_for_a_promise_is_cancelled_at_once() -> None:
    first: Promise[None] = Promise()
    told: list[str] = []
    rest = begin(wait_for(first, told))
    assert isinstance(rest, Begun)
    rest.cancel()
    assert rest.cancelled()
    assert first.cancelled()
    assert told == ["cancelled"]


async def test_a_promise_may_be_followed_by_a_future_and_that_by_a_promise() -> None:
    first: Promise[int] = Promise()
    last: Promise[int] = Promise()

    async def add() -> int:
        before = await first
        return before + await asyncio.to_thread(lambda: 1) + await last

    rest = begin(add())
    assert isinstance(rest, Begun)
    first.set_result(40)
    last.set_result(1)
    assert await rest == 42


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


async def test_whatever_ends_the_coroutine_reaches_who_awaits_it() -> None:
    """Also what is no Exception: otherwise a task would wait for ever, and could not even be cancelled."""

    class Crash(BaseException):
        pass

    first: Promise[None] = Promise()

    async def crash() -> None:
        await first
        raise Crash

    rest = begin(crash())
    assert isinstance(rest, Begun)
    task = asyncio.ensure_future(rest)
    await asyncio.sleep(0)
    first.set_result(None)
    with pytest.raises(Crash):
        await task
