"""Figures: medians, ratios of the same round, percentiles."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bench.stats import latency_sample, percentile, ratio, spread

VALUES = st.lists(st.floats(0.001, 1e6), min_size=1, max_size=50)


def test_a_spread_is_the_median_between_the_extremes() -> None:
    assert spread([3.0, 1.0, 2.0]) == (2.0, 1.0, 3.0)
    assert spread([4.0, 1.0]).median == 2.5
    assert spread([8.0, 10.0, 12.0]).relative == 0.4


def test_a_ratio_compares_what_was_measured_in_the_same_round() -> None:
    """The machine halved its speed in the second round: each round for itself says 2."""
    assert ratio([200.0, 100.0], [100.0, 50.0]) == (2.0, 2.0, 2.0)


def test_a_ratio_leaves_out_rounds_that_one_side_lacks() -> None:
    assert ratio([4.0, 9.0, 100.0], [2.0, 3.0]) == (2.5, 2.0, 3.0)
    assert ratio([1.0], []) is None
    assert ratio([], [1.0]) is None
    assert ratio([1.0], [0.0]) is None


def test_percentiles_of_a_hundred() -> None:
    values = [float(value) for value in range(100, 0, -1)]
    assert [percentile(values, share) for share in (0.0, 0.5, 0.99, 0.999, 1.0)] == [1, 50, 99, 100, 100]


@given(VALUES, st.floats(0, 1))
def test_a_percentile_is_reached_by_the_smallest_value_that_covers_its_share(values: list[float], share: float) -> None:
    found = percentile(values, share)
    covered = sum(value <= found for value in values)
    assert found in values
    assert covered >= share * len(values) - 1e-9
    assert found == min(values) or sum(value < found for value in values) < share * len(values)


def test_latencies_are_told_in_milliseconds() -> None:
    assert latency_sample([0.001] * 99 + [1.0]) == {"p50_ms": 1.0, "p99_ms": 1.0}
    assert latency_sample([0.001] * 998 + [1.0] * 2) == {"p50_ms": 1.0, "p99_ms": 1.0, "p999_ms": 1000.0}
