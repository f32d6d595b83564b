"""Quotas: which one counts for a client, and how long it is slowed down."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from oncelog.broker.requests.quotas import FETCH, PRODUCE, Entity, Quotas


class ManualClock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Any:
    return ManualClock()


def client(client_id: str) -> Any:
    return SimpleNamespace(client_id=client_id)


def entity(**names: str | None) -> Entity:
    return tuple(sorted((name.replace("_", "-"), value) for name, value in names.items()))


def test_without_quotas_nothing_is_counted(clock: Any) -> None:
    quotas = Quotas(clock, 11, 1.0)
    assert not quotas.produce_limited
    assert quotas.produced(client("a"), 10**9) == 0


def test_a_client_within_its_rate_is_not_slowed(clock: Any) -> None:
    quotas = Quotas(clock, 11, 1.0)
    quotas.update({entity(client_id="a"): {PRODUCE: 1000.0}})
    assert quotas.produce_limited
    for _ in range(50):
        clock.seconds += 1
        assert quotas.produced(client("a"), 900) == 0
    assert quotas.produced(client("b"), 10**9) == 0


def test_a_client_over_its_rate_waits_until_the_rate_is_right(clock: Any) -> None:
    quotas = Quotas(clock, 11, 1.0)
    quotas.update({entity(client_id="a"): {PRODUCE: 1000.0}})
    throttle_ms = quotas.produced(client("a"), 15_000)
    assert throttle_ms == 5000
    clock.seconds += throttle_ms / 1000
    assert quotas.produced(client("a"), 0) == pytest.approx(5000, abs=1)
    clock.seconds += 20
    assert quotas.produced(client("a"), 100) == 0


def test_the_throttle_time_is_bounded_by_the_window(clock: Any) -> None:
    quotas = Quotas(clock, 11, 1.0)
    quotas.update({entity(client_id="a"): {PRODUCE: 1.0}})
    assert quotas.produced(client("a"), 10**9) == 11_000


@pytest.mark.parametrize(
    ("configured", "shared"),
    [
        (entity(client_id="a", user="ANONYMOUS"), entity(client_id="a", user="ANONYMOUS")),
        (entity(client_id=None, user="ANONYMOUS"), entity(client_id="a", user="ANONYMOUS")),
        (entity(user="ANONYMOUS"), entity(user="ANONYMOUS")),
        (entity(client_id="a", user=None), entity(client_id="a", user="ANONYMOUS")),
        (entity(client_id=None, user=None), entity(client_id="a", user="ANONYMOUS")),
        (entity(user=None), entity(user="ANONYMOUS")),
        (entity(client_id="a"), entity(client_id="a")),
        (entity(client_id=None), entity(client_id="a")),
    ],
)
def test_every_kind_of_entity_matches(clock: Any, configured: Entity, shared: Entity) -> None:
    quotas = Quotas(clock, 11, 1.0)
    quotas.update({configured: {PRODUCE: 5.0}})
    assert quotas.limit(PRODUCE, "ANONYMOUS", "a") == (shared, 5.0)


def test_the_most_specific_quota_counts(clock: Any) -> None:
    quotas = Quotas(clock, 11, 1.0)
    quotas.update({entity(client_id=None): {PRODUCE: 1.0}, entity(client_id="a"): {PRODUCE: 2.0}})
    assert quotas.limit(PRODUCE, "ANONYMOUS", "a") == (entity(client_id="a"), 2.0)
    assert quotas.limit(PRODUCE, "ANONYMOUS", "b") == (entity(client_id="b"), 1.0)


def test_one_answer_has_no_more_than_a_window_of_the_quota(clock: Any) -> None:
    quotas = Quotas(clock, 11, 2.0)
    quotas.update({entity(client_id="a"): {FETCH: 1000.0}})
    assert quotas.fetch_size_bytes_max(client("a")) == 20_000
    assert quotas.fetch_size_bytes_max(client("b")) == 2**31 - 1
