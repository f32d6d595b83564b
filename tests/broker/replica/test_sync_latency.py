"""When the event loop syncs by itself: on a disk that its own syncs have shown to be fast."""

from __future__ import annotations

from oncelog.broker.replica.sync_latency import (
    ROUND_SECONDS_MAX,
    ROUNDS_BEFORE_TRIAL_MAX,
    ROUNDS_BEFORE_TRIAL_MIN,
    SECONDS_PER_BYTE,
    STALL_SECONDS,
    DiskPace,
)

FAST, SLOW = ROUND_SECONDS_MAX / 5, ROUND_SECONDS_MAX * 3


def rounds_before_trial(pace: DiskPace) -> int:
    count = 0
    while not pace.allows_loop():
        count += 1
    return count


def test_an_unknown_disk_is_left_to_threads_and_then_tried() -> None:
    pace = DiskPace()
    assert rounds_before_trial(pace) == ROUNDS_BEFORE_TRIAL_MIN
    pace.note(FAST, 0)
    assert rounds_before_trial(pace) == 0


def test_one_slow_round_among_fast_ones_is_forgiven_but_not_a_stall() -> None:
    pace = DiskPace()
    rounds_before_trial(pace)
    for _ in range(50):
        pace.note(FAST, 0)
    pace.note(SLOW, 0)
    assert pace.allows_loop()
    pace.note(STALL_SECONDS, 0)
    assert not pace.allows_loop()


def test_a_disk_that_becomes_slow_is_left_to_threads() -> None:
    pace = DiskPace()
    rounds_before_trial(pace)
    pace.note(FAST, 0)
    for _ in range(10):
        if pace.allows_loop():
            pace.note(SLOW, 0)
    assert not pace.allows_loop()


def test_a_slow_disk_costs_one_round_for_each_trial_and_is_tried_ever_less() -> None:
    pace = DiskPace()
    pauses = []
    for _ in range(9):
        pauses.append(rounds_before_trial(pace))
        pace.note(SLOW, 0)
    assert pauses[:3] == [ROUNDS_BEFORE_TRIAL_MIN, ROUNDS_BEFORE_TRIAL_MIN, 2 * ROUNDS_BEFORE_TRIAL_MIN]
    assert pauses[-1] == ROUNDS_BEFORE_TRIAL_MAX
    pace.allows_loop()
    rounds_before_trial(pace)
    pace.note(FAST, 0)
    pace.note(STALL_SECONDS, 0)
    assert rounds_before_trial(pace) == ROUNDS_BEFORE_TRIAL_MIN


def test_many_bytes_may_take_longer() -> None:
    pace = DiskPace()
    rounds_before_trial(pace)
    much_bytes = round(SLOW / SECONDS_PER_BYTE)
    for _ in range(10):
        pace.note(SLOW + FAST, much_bytes)
    assert pace.allows_loop()
    for _ in range(10):
        pace.note(SLOW * 3, much_bytes)
    assert not pace.allows_loop()


def test_many_bytes_are_no_credit_for_later_rounds() -> None:
    pace = DiskPace()
    rounds_before_trial(pace)
    for _ in range(50):
        pace.note(FAST, round(STALL_SECONDS / SECONDS_PER_BYTE))
    for _ in range(10):
        pace.note(SLOW, 0)
    assert not pace.allows_loop()
