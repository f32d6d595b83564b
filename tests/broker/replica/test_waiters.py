"""What waits: acks in the order of offsets, several partitions at once, and an end in any case."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog.broker.base.completions import Completions
from oncelog.broker.replica.waiters import AckCountdown, AckTimeouts, CommitWaiters, FetchWaiter
from oncelog.protocol.errors import ErrorCode, KafkaError


async def test_futures_are_settled_when_the_high_watermark_has_passed_them() -> None:
    completions = Completions()
    waiters, settled = CommitWaiters(completions), []
    for offset in (5, 7, 7, 9):
        waiters.add(offset).then(lambda future, offset=offset: settled.append((offset, future.exception())))
    waiters.reached(6)
    assert settled == [], "in the midst of what the caller does"
    await asyncio.sleep(0)
    assert settled == [(5, None)]
    waiters.reached(7)
    completions.run()
    assert [offset for offset, _ in settled] == [5, 7, 7]
    waiters.fail(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR))
    completions.run()
    offset, error = settled[-1]
    assert offset == 9
    assert isinstance(error, KafkaError)
    assert error.code == ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("failure", [None, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)], ids=["reached", "failed"])
async def test_a_listener_that_raises_concerns_nobody_else(
    caplog: pytest.LogCaptureFixture, failure: KafkaError | None
) -> None:
    completions = Completions()
    waiters, settled = CommitWaiters(completions), []

    def bug(_: object) -> None:
        raise ValueError("a bug")

    waiters.add(1).then(bug)
    waiters.add(2).then(settled.append)
    if failure is None:
        waiters.reached(2)
    else:
        waiters.fail(failure)
    completions.run()
    assert [future.exception() is not None for future in settled] == [failure is not None]
    assert [record.exc_info is not None for record in caplog.records] == [True]


async def test_a_countdown_gives_its_value_when_all_have_arrived() -> None:
    countdown = AckCountdown("value")
    countdown.expect()
    countdown.expect()
    countdown.arrived()
    assert not countdown.done()
    countdown.arrived()
    assert await countdown == "value"


async def test_a_countdown_that_takes_too_long_gives_its_value_all_the_same() -> None:
    countdown, expired = AckCountdown("value"), []
    countdown.expect()
    countdown.expire_after(AckTimeouts(), 1, lambda: expired.append(True))
    assert await countdown == "value"
    assert expired == [True]
    countdown.arrived()


async def test_each_countdown_has_its_own_time() -> None:
    timeouts, expired = AckTimeouts(), []
    countdowns = {}
    for timeout_ms in (60_000, 20, 1, 10):
        countdown = countdowns[timeout_ms] = AckCountdown(timeout_ms)
        countdown.expect()
        countdown.expire_after(timeouts, timeout_ms, lambda timeout_ms=timeout_ms: expired.append(timeout_ms))
    countdowns[10].arrived()
    assert [await countdowns[1], await countdowns[20]] == [1, 20]
    assert expired == [1, 20]
    assert not countdowns[60_000].done()
    countdowns[60_000].arrived()
    assert await countdowns[60_000] == 60_000


async def test_a_time_limit_may_end_what_another_one_waits_for() -> None:
    timeouts, expired = AckTimeouts(), []
    first, second = AckCountdown("first"), AckCountdown("second")
    first.expire_after(timeouts, 1, second.finish)
    second.expire_after(timeouts, 1, lambda: expired.append("second"))
    assert [await first, await second] == ["first", "second"]
    assert expired == []


async def test_a_bug_in_one_time_limit_takes_no_other_away(caplog: pytest.LogCaptureFixture) -> None:
    timeouts = AckTimeouts()
    broken, other = AckCountdown("broken"), AckCountdown("other")

    def bug() -> None:
        raise ValueError("a bug")

    broken.expire_after(timeouts, 1, bug)
    other.expire_after(timeouts, 5, lambda: None)
    assert [await broken, await other] == ["broken", "other"]
    assert [record.exc_info is not None for record in caplog.records] == [True]


async def test_who_is_told_of_a_time_limit_may_wait_again() -> None:
    timeouts = AckTimeouts()
    first, second, again = AckCountdown("first"), AckCountdown("second"), AckCountdown("again")
    first.expire_after(timeouts, 1, lambda: again.expire_after(timeouts, 60_000, lambda: None))
    second.expire_after(timeouts, 5, lambda: None)
    assert [await first, await second] == ["first", "second"]
    assert not again.done()
    again.finish()


class FakePartition:
    def __init__(self) -> None:
        self.fetch_waiters: set[Any] = set()


async def test_a_long_poll_ends_by_bytes_by_time_and_with_its_client() -> None:
    partition = FakePartition()
    by_bytes = FetchWaiter([partition], 100, 60_000)
    by_bytes.grew(60)
    assert not by_bytes.future.done()
    by_bytes.grew(60)
    await by_bytes.future
    await FetchWaiter([partition], 100, 1).future
    gone = FetchWaiter([partition], 100, 60_000)
    gone.future.cancel()
    await asyncio.sleep(0)
    assert partition.fetch_waiters == set()
