"""Settings of hypothesis for all tests (`pytest --hypothesis-profile=fuzz` looks longer), and soaking."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from tests.soak import RESULTS, Soak

# A busy machine can stall any example, so only pytest's own timeout watches the clock.
SLOW_IS_FINE = [HealthCheck.too_slow]
settings.register_profile("usual", deadline=None, suppress_health_check=SLOW_IS_FINE)
settings.register_profile("fuzz", deadline=None, suppress_health_check=SLOW_IS_FINE, max_examples=1000)
settings.load_profile("usual")


@pytest.fixture
def soak(request: pytest.FixtureRequest) -> Soak:
    return Soak(request)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    results = config.stash.get(RESULTS, [])
    if results:
        terminalreporter.section("what the long tests have seen")
        for line in results:
            terminalreporter.write_line(line)
