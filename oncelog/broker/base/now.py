"""The time, as two numbers that must not be mixed."""

from __future__ import annotations

from oncelog.named_tuple import NamedTuple


class Now(NamedTuple):
    wall_ms: int
    """Milliseconds since 1970: what records store and people read. The system's clock may be set, so it jumps."""
    steady_ms: int
    """Monotonic milliseconds: what deadlines and ages are measured with. Only differences mean anything, and only
    within this process."""

    def steady_at(self, wall_ms: int) -> int:
        """The steady time of something that was stored with a wall-clock time. It never lies in the future."""
        return self.steady_ms - max(0, self.wall_ms - wall_ms)
