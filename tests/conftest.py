"""What all tests share: settings of hypothesis (`pytest --hypothesis-profile=fuzz` looks longer), soaking, a broker."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.soak import RESULTS, Soak

# A busy machine can stall any example, so only pytest's own timeout watches the clock.
SLOW_IS_FINE = [HealthCheck.too_slow]
settings.register_profile("usual", deadline=None, suppress_health_check=SLOW_IS_FINE)
settings.register_profile("fuzz", deadline=None, suppress_health_check=SLOW_IS_FINE, max_examples=1000)
settings.load_profile("usual")


@pytest.fixture(scope="session")
def bootstrap_servers() -> Iterator[str]:
    """One broker for the tests of the client and the command line.

    Oncelog, or with ONCELOG_TEST_REFERENCE=1 Apache Kafka, to see that the tests ask for the right thing."""
    if os.environ.get("ONCELOG_TEST_REFERENCE"):
        from conformance.reference.kafka import ApacheKafka

        with ApacheKafka() as kafka:
            yield kafka.bootstrap_servers
    else:
        from oncelog.testing import Broker

        with Broker() as broker:
            yield broker.bootstrap_servers


@pytest.fixture
def soak(request: pytest.FixtureRequest) -> Soak:
    return Soak(request)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    results = config.stash.get(RESULTS, [])
    if results:
        terminalreporter.section("what the long tests have seen")
        for line in results:
            terminalreporter.write_line(line)
