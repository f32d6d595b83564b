"""The broker's settings as the coordinator of groups needs them. In a module of its own, since a broker starts with the
settings, and loads the coordinator for the first group."""

from __future__ import annotations

from collections.abc import Callable

from oncelog.named_tuple import NamedTuple

UNIFORM = "uniform"
RANGE = "range"
ASSIGNORS = (UNIFORM, RANGE)
"""The assignors that there are."""
OFFSETS_AT_ONCE = 250
"""How many offsets are looked at, or deleted, in one turn of the event loop."""


class GroupSettings(NamedTuple):
    initial_rebalance_delay_ms: int = 3000
    session_timeout_ms_min: int = 6000
    session_timeout_ms_max: int = 1_800_000
    group_size_max: int = 2**31 - 1
    offset_metadata_size_max: int = 4096
    offsets_retention_ms: int = 7 * 24 * 60 * 60 * 1000
    offsets_retention_check_interval_ms: int = 600_000
    consumer_session_timeout_ms: int = 45_000
    consumer_heartbeat_interval_ms: int = 5000
    consumer_assignment_interval_ms: int = 1000
    consumer_group_size_max: int = 2**31 - 1
    consumer_assignors: tuple[str, ...] = ASSIGNORS
    """The first is the default."""
    upgrade_enabled: bool = True
    downgrade_enabled: bool = True

    def allow_session_of(self, timeout_ms: int) -> bool:
        """Of a classic member; those of the consumer protocol are told how long theirs is."""
        return self.session_timeout_ms_min <= timeout_ms <= self.session_timeout_ms_max


Settings = Callable[[], GroupSettings]
"""Those in force, asked for at each use: some change while the broker runs (KIP-226)."""
