"""A promise tells its listener at once, a task in the next turn, and is settled once."""

from __future__ import annotations

import asyncio
import gc
import traceback
import weakref
from contextlib import suppress

import pytest

from oncelog.broker.base.immediate_future import Promise


def test_a_listener_hears_at_once_and_only_of_the_first_settling() -> None:
    promise: Promise[int] = Promise()
    heard: list[int] = []
    promise.then(lambda done: heard.append(done.result()))
    promise.set_result(1)
    promise.set_result(2)
    promise.set_exception(ValueError())
    assert not promise.cancel()
    assert heard == [1]
    promise.then(lambda done: heard.append(done.result()))
    assert heard == [1, 1]


def test_a_listener_that_fails_keeps_nothing_from_the_others(caplog: pytest.LogCaptureFixture) -> None:
    promise: Promise[int] = Promise()
    heard: list[int] = []

    def fail(_: object) -> None:
        raise ValueError("no")

    promise.then(fail)
    promise.then(lambda done: heard.append(done.result()))
    promise.set_result(1)
    assert heard == [1]
    assert "internal error in a callback" in caplog.text


def test_an_error_that_is_raised_again_and_again_stays_small() -> None:
    promise: Promise[int] = Promise()
    error = ValueError("no")
    promise.set_exception(error)
    lengths = []
    for _ in range(3):
        with pytest.raises(ValueError, match="no"):
            promise.result()
        lengths.append(len(traceback.extract_tb(error.__traceback__)))
    assert lengths[0] == lengths[2]


def test_a_promise_that_failed_is_gone_with_the_last_who_knows_it() -> None:
    class Seen(Promise[int]):
        """Without slots, so that it can be watched."""

    promise = Seen()
    promise.set_exception(ValueError("no"))
    gone = weakref.ref(promise)
    gc.disable()
    try:
        with suppress(ValueError):
            promise.result()
        del promise
        assert gone() is None
    finally:
        gc.enable()


async def test_a_task_awaits_it_like_a_future() -> None:
    good: Promise[int] = Promise()
    bad: Promise[int] = Promise()

    async def wait(promise: Promise[int]) -> int:
        return await promise

    tasks = [asyncio.ensure_future(wait(promise)) for promise in (good, bad)]
    await asyncio.sleep(0)
    good.set_result(1)
    bad.set_exception(ValueError("no"))
    assert not tasks[0].done()
    assert await tasks[0] == 1
    with pytest.raises(ValueError, match="no"):
        await tasks[1]


async def test_a_task_that_is_cancelled_cancels_it() -> None:
    promise: Promise[int] = Promise()

    async def wait() -> int:
        return await promise

    task = asyncio.ensure_future(wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert promise.cancelled()


async def test_the_tools_of_asyncio_take_it_for_a_future() -> None:
    promise: Promise[int] = Promise()
    asyncio.get_running_loop().call_soon(promise.set_result, 1)
    assert await asyncio.wait_for(promise, 60) == 1
    late: Promise[int] = Promise()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(late), 0.001)
    late.set_result(2)
    assert await asyncio.gather(promise, late) == [1, 2]
