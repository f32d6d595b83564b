"""The settings that hold for one consumer group: its own, or else the broker's."""

from __future__ import annotations

from collections.abc import Mapping

from oncelog.broker.coordinator.group.settings import GroupSettings
from oncelog.named_tuple import NamedTuple


class ConsumerSettings(NamedTuple):
    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int
    default_assignor: str


def consumer_settings(settings: GroupSettings, configs: Mapping[str, str]) -> ConsumerSettings:
    """`configs` are those of the group in the cluster's metadata."""
    return ConsumerSettings(
        int(configs.get("consumer.session.timeout.ms", settings.consumer_session_timeout_ms)),
        int(configs.get("consumer.heartbeat.interval.ms", settings.consumer_heartbeat_interval_ms)),
        int(configs.get("consumer.assignment.interval.ms", settings.consumer_assignment_interval_ms)),
        settings.consumer_assignors[0],
    )
