"""Settings of one group (KIP-848), each with the broker settings that are its default and its bounds."""

from __future__ import annotations

from typing import Final

from oncelog.broker.config.keys import CLUSTER_WIDE, ConfigKey, table
from oncelog.broker.config.values import INT, at_least

K = ConfigKey

GROUP_KEYS: Final = table(
    (
        K(
            "consumer.session.timeout.ms",
            INT,
            "45000",
            at_least(1),
            CLUSTER_WIDE,
            "The time without a heartbeat after which a member is removed.",
        ),
        K(
            "consumer.heartbeat.interval.ms",
            INT,
            "5000",
            at_least(1),
            CLUSTER_WIDE,
            "How often a member is told to send a heartbeat.",
        ),
        K(
            "consumer.assignment.interval.ms",
            INT,
            "1000",
            at_least(0),
            CLUSTER_WIDE,
            "The least time between two assignments.",
        ),
    )
)


def broker_synonym(name: str) -> str:
    """The broker's default of a group setting."""
    return f"group.{name}"


def broker_bounds(name: str) -> tuple[str, str]:
    """The broker settings between which a group setting must lie."""
    kind, _, rest = name.partition(".")
    return f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest}"
