"""A broker for each file of tests, a Java process for all of them, and topics with names of their own."""

from __future__ import annotations

import gc
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from oncelog.testing import Broker

sys.path.insert(0, os.path.dirname(__file__))

from java_driver import JavaDriver
from producers import PRODUCERS, Producers

_numbers = count()


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture(scope="session")
def java() -> Iterator[JavaDriver]:
    driver = JavaDriver()
    yield driver
    driver.close()


@pytest.fixture(scope="session", autouse=True)
def leaked_sockets() -> Iterator[None]:
    """kafka-python leaves its sockets to the garbage collector, and nobody wants to hear of it."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture
def unique() -> Callable[[str], str]:
    """A name that no other test has."""
    return lambda name: f"{name}-{next(_numbers)}"


@pytest.fixture
def topic(broker: Broker, unique: Callable[[str], str]) -> str:
    """With three partitions."""
    from reading import create_topic

    name = unique("topic")
    create_topic(broker.bootstrap_servers, name, 3)
    return name


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.java if name == "java" else ()) for name in PRODUCERS])
def producers(request: pytest.FixtureRequest, broker: Broker) -> Iterator[Producers]:
    """Makes transactional producers of one of the stock clients, and closes them."""
    driver = request.getfixturevalue("java") if request.param == "java" else None
    made = Producers(request.param, broker, driver)
    yield made
    made.close()
