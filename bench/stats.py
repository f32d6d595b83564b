"""Medians, spreads, percentiles, and ratios between samples of the same round."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple


class Spread(NamedTuple):
    median: float
    low: float
    high: float

    @property
    def relative(self) -> float:
        """The distance between the extremes as a share of the median: how much the machine shook."""
        return (self.high - self.low) / self.median if self.median else 0.0


def spread(values: Sequence[float]) -> Spread:
    return Spread(statistics.median(values), min(values), max(values))


def ratio(values: Sequence[float], base: Sequence[float]) -> Spread | None:
    """Of samples of the same round, so that what slows a round down slows both; None if there are none to compare."""
    quotients = [value / other for value, other in zip(values, base, strict=False) if other]
    return spread(quotients) if quotients else None


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least that share of all does not exceed."""
    assert values, "nothing was measured"
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -int(-len(ordered) * share // 1) - 1))]


def latency_sample(latencies_s: Sequence[float]) -> dict[str, float]:
    """A percentile of fewer events than it leaves out would only be the slowest of them, and is left out itself."""
    shares = {"p50_ms": 0.5, "p99_ms": 0.99, "p999_ms": 0.999}
    known = {name: share for name, share in shares.items() if round(len(latencies_s) * (1 - share)) >= 1}
    return {name: percentile(latencies_s, share) * 1e3 for name, share in known.items()}
