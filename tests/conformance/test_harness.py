"""The harness itself: a broker with a seeded fault must turn its cells red."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from conformance.brokers import Running
from conformance.card import CellResult, compare_cell, render
from conformance.wire.compare import Report, advertised, generated_cases, run_cases, wire_cases
from conformance.wire.listed import Found, Listed, Verdict, judge, read_listed
from oncelog.broker.handlers import list_offsets, metadata
from oncelog.protocol.api_keys import ApiKey
from oncelog.testing import Broker

if TYPE_CHECKING:
    from collections.abc import Iterator

FOUND = Found("Fetch", 4, "good", "/error_code", "0", "1")


@pytest.fixture(scope="module")
def twins() -> Iterator[tuple[Running, Running]]:
    """Two brokers in this process that should not differ at all."""
    with Broker() as left, Broker() as right:
        yield Running(left.bootstrap_servers, None), Running(right.bootstrap_servers, None)


def compare(twins: tuple[Running, Running], pattern: str) -> Report:
    left, right = twins
    return run_cases(wire_cases(pattern), left.address, right.address, lambda _: None)


def test_a_broker_does_not_differ_from_itself(twins: tuple[Running, Running]) -> None:
    report = compare(twins, "ListOffsets.[45]")
    assert report.found == []
    assert report.cells.keys() == {(ApiKey.LIST_OFFSETS, 4), (ApiKey.LIST_OFFSETS, 5)}


def test_an_offset_that_is_off_by_one_is_found(
    twins: tuple[Running, Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, right = twins
    port = int(right.address.rpartition(":")[2])
    handle = list_offsets.handle

    def faulty(request: Any, context: Any) -> Any:
        response = handle(request, context)
        if context.services.config.text("listeners").endswith(f":{port}"):
            return response
        return response

    del faulty, port
    calls = 0

    def every_second(request: Any, context: Any) -> Any:
        """Both brokers share the handler: one of two answers to the same request is wrong."""
        nonlocal calls
        calls += 1
        response = handle(request, context)
        if calls % 2:
            for topic in response.topics:
                for partition in topic.partitions:
                    partition.offset += 1
        return response

    monkeypatch.setattr(list_offsets, "handle", every_second)
    assert any(found.field.endswith("/offset") for found in compare(twins, "ListOffsets.7").found)
