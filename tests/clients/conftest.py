"""A broker for each file of tests, and the helpers beside the tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from oncelog.testing import Broker

sys.path.insert(0, os.path.dirname(__file__))

_numbers = count()


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    # Segments whose records were deleted leave the log while the test watches.
    settings = {"log.retention.check.interval.ms": "100", "log.initial.task.delay.ms": "0"}
    with Broker(settings) as broker:
        yield broker


@pytest.fixture
def unique() -> Callable[[str], str]:
    """A name that no other test has."""
    return lambda name: f"{name}-{next(_numbers)}"
