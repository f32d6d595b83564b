"""The pytest plugin: fixtures with a running broker, loaded by itself wherever oncelog is installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from oncelog.testing.broker import Broker


_SCOPE = "oncelog_broker_scope"
_SCOPES = ("function", "class", "module", "package", "session")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(_SCOPE, f"how long an oncelog_broker lives: {', '.join(_SCOPES)}", default="function")


def pytest_configure(config: pytest.Config) -> None:
    scope = config.getini(_SCOPE)
    if scope not in _SCOPES:
        allowed = f"{', '.join(_SCOPES[:-1])} or {_SCOPES[-1]}"
        raise pytest.UsageError(f"{_SCOPE} is {scope!r}; it must be {allowed}")


def _scope(fixture_name: str, config: pytest.Config) -> Any:
    return config.getini(_SCOPE)


@pytest.fixture(scope=_scope)
def oncelog_broker() -> Iterator[Broker]:
    """A broker for one test, or for as long as the ini option `oncelog_broker_scope` says."""
    from oncelog.testing.broker import Broker

    with Broker() as broker:
        yield broker


@pytest.fixture(scope="session")
def oncelog_session_broker() -> Iterator[Broker]:
    """One broker for all tests of the session; they share its topics."""
    from oncelog.testing.broker import Broker

    with Broker() as broker:
        yield broker
