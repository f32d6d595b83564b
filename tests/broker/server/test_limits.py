from __future__ import annotations

import logging

import pytest

from oncelog.broker.server.limits import COUNT_MIN, ConnectionLimits, count_for

MANY = 2**31 - 1


@pytest.mark.parametrize(
    ("descriptors_max", "log_files_max", "count"),
    [(1_048_576, 4096, 1_044_416), (8192, 4096, 4032), (1024, 512, 448), (256, 128, 64), (90, 45, 23), (20, 10, 8)],
)
def test_connections_leave_the_log_its_files(descriptors_max: int, log_files_max: int, count: int) -> None:
    assert count_for(descriptors_max, log_files_max) == count >= COUNT_MIN


def admitted(limits: ConnectionLimits, count: int) -> int:
    return sum(limits.admit("10.0.0.1", 0.0) for _ in range(count))


def test_what_is_refused_for_the_sake_of_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="oncelog")
    limits = ConnectionLimits(MANY, MANY, {}, MANY)
    limits.leave_descriptors(90, 45)
    assert admitted(limits, 25) == 23
    assert "refused a connection from 10.0.0.1: 23 are open" in caplog.text
    assert "90 files" in caplog.text
    assert "ulimit -n" in caplog.text
    limits.release("10.0.0.1")
    assert admitted(limits, 2) == 1


def test_the_lower_limit_counts(caplog: pytest.LogCaptureFixture) -> None:
    limits = ConnectionLimits(5, MANY, {}, MANY)
    limits.leave_descriptors(90, 45)
    assert admitted(limits, 10) == 5
    assert "max.connections=5 are open" in caplog.text
    limits.update(MANY, MANY, {}, MANY)
    assert admitted(limits, 100) == 18


def test_no_limit_of_open_files() -> None:
    limits = ConnectionLimits(MANY, MANY, {}, MANY)
    assert admitted(limits, 1000) == 1000
