from __future__ import annotations

from typing import Any

import pytest

from oncelog.broker.metadata.controller import Plan, QuotaChange, plan_client_quotas
from oncelog.broker.metadata.store import Delete
from tests.broker.metadata.images import applied, cluster

RATE = "producer_byte_rate"


def codes(plan: Plan[Any]) -> list[int]:
    return [result.outcome.code for result in plan.results]


def test_set_change_and_remove() -> None:
    image = cluster()
    entity = [("user", "ü/,="), ("client-id", None)]
    ordered = (("client-id", None), ("user", "ü/,="))
    plan = plan_client_quotas(image, [QuotaChange(entity, [(RATE, 1024.0), ("request_percentage", 1.5)])])
    assert plan.results[0].entity == ordered
    image = applied(image, plan)
    assert image.quotas == {ordered: {RATE: 1024.0, "request_percentage": 1.5}}
    image = applied(image, plan_client_quotas(image, [QuotaChange(entity, [(RATE, None)])]))
    assert image.quotas == {ordered: {"request_percentage": 1.5}}
    plan = plan_client_quotas(image, [QuotaChange(entity, [("request_percentage", None)])])
    assert isinstance(plan.writes[0], Delete)
    assert applied(image, plan).quotas == {}


@pytest.mark.parametrize(
    ("entity", "quotas"),
    [
        ([("user", "u")], [(RATE, 2.0**62)]),
        ([("user", "u")], []),
        ([("user", "u")], [("unknown", None)]),
        ([("ip", None)], [("connection_creation_rate", 5)]),
        ([("ip", "10.0.0.1")], [("connection_creation_rate", 5)]),
        ([("ip", "::1")], [("connection_creation_rate", 2**31 - 1)]),
        ([("client-id", "c")], [("controller_mutation_rate", 0.5)]),
    ],
)
def test_grants(entity: list[tuple[str, str | None]], quotas: list[tuple[str, float | None]]) -> None:
    assert codes(plan_client_quotas(cluster(), [QuotaChange(entity, quotas)])) == [0]


@pytest.mark.parametrize(
    ("entity", "quotas"),
    [
        ([], [(RATE, 1)]),
        ([("user", "")], [(RATE, 1)]),
        ([("group", "u")], [(RATE, 1)]),
        ([("user", "u"), ("user", "v")], [(RATE, 1)]),
        ([("ip", "10.0.0.1"), ("user", "u")], [("connection_creation_rate", 1)]),
        ([("ip", "not an ip")], [("connection_creation_rate", 1)]),
        ([("ip", None)], [(RATE, 1)]),
        ([("ip", None)], [("connection_creation_rate", 2**31)]),
        ([("user", "u")], [("connection_creation_rate", 1)]),
        ([("user", "u")], [("unknown", 1)]),
        ([("user", "u")], [(RATE, 0)]),
        ([("user", "u")], [(RATE, -1)]),
        ([("user", "u")], [(RATE, 100.5)]),
        ([("user", "u")], [(RATE, 1e300)]),
        ([("user", "u")], [(RATE, float("nan"))]),
        ([("user", "u")], [("request_percentage", float("inf"))]),
        ([("user", "u")], [("request_percentage", float("nan"))]),
        ([("user", "u")], [(RATE, 1), (RATE, 2)]),
    ],
)
def test_refusals(entity: list[tuple[str, str | None]], quotas: list[tuple[str, float | None]]) -> None:
    good = QuotaChange([("client-id", "good")], [(RATE, 1)])
    plan = plan_client_quotas(cluster(), [QuotaChange(entity, quotas), good])
    assert codes(plan) == [42, 0]
    assert [write.key for write in plan.writes] == ["/quotas/client-id=good"]


def test_an_entity_twice_is_refused_once() -> None:
    changes = [QuotaChange([("user", "u")], [(RATE, n)]) for n in (1.0, 2.0)]
    plan = plan_client_quotas(cluster(), changes)
    assert codes(plan) == [42]
    assert plan.writes == []


def test_validate_only_and_nothing_write_nothing() -> None:
    plan = plan_client_quotas(cluster(), [QuotaChange([("user", "u")], [(RATE, 1)])], validate_only=True)
    assert codes(plan) == [0]
    assert plan.writes == []
    assert plan_client_quotas(cluster(), []).results == []
