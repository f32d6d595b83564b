"""The settings of groups, as coordinators ask for them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from oncelog.broker.config import BrokerConfig
from oncelog.broker.coordinator.run.group_host import SettingsInForce


def test_dynamic_settings_are_read_anew() -> None:
    services: Any = SimpleNamespace(config=BrokerConfig())
    settings = SettingsInForce(services)
    assert settings().consumer_assignment_interval_ms == 1000
    assert settings() is settings()
    services.config = services.config.with_overrides({"group.consumer.assignment.interval.ms": "7"}, {})
    assert settings().consumer_assignment_interval_ms == 7
