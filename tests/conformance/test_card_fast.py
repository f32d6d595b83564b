"""The part of the card that every run of the tests has time for: the latest version of each API, a few clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance.brokers import APACHE, ONCELOG, Running, open_broker
from conformance.card import judge_clients, judge_wire, open_both
from conformance.card_settings import SETTINGS
from conformance.cells import compare_cell
from conformance.wire.compare import advertised, run_cases, wire_cases
from conformance.wire.state import REFERENCE_SETTINGS
from conformance.wire.state import SETTINGS as WIRE_SETTINGS
from oncelog.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    # kafka-python loads its schemas by functions that Python 3.11 calls deprecated.
    pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated"),
]

# Kafka leaves some of their requests without an answer, and each costs the time after which that is certain.
SLOW = (ApiKey.WRITE_TXN_MARKERS, ApiKey.ALTER_CONFIGS, ApiKey.ADD_PARTITIONS_TO_TXN)
DIALOGUES = ("classic group v9", "static consumer v1", "transactions v2", "transactions v5", "fetch session v18")
CELLS = (
    ("confluent", "idempotence"),
    ("confluent", "transactions"),
    ("kafka-python", "transactions"),
    ("aiokafka", "groups"),
)


@pytest.fixture(scope="module")
def brokers(java: None) -> Iterator[tuple[Running, Running]]:
    with open_both() as both:
        yield both


@pytest.fixture
def untouched_brokers(java: None) -> Iterator[tuple[Running, Running]]:
    """Answers that list everything are alike only where nobody else has made topics and groups."""
    settings = SETTINGS | WIRE_SETTINGS
    with open_broker(APACHE, settings | REFERENCE_SETTINGS) as expected, open_broker(ONCELOG, settings) as actual:
        yield expected, actual


def test_the_latest_version_of_each_api(untouched_brokers: tuple[Running, Running]) -> None:
    latest = dict(sorted(advertised()))
    names = {f"{key.camel}.{version}" for key, version in latest.items() if key not in SLOW}
    cases = [case for case in wire_cases() if case.name in names or case.name in DIALOGUES]
    assert len(cases) == len(names) + len(DIALOGUES)
    expected, actual = untouched_brokers
    report = run_cases(cases, expected.address, actual.address)
    assert [str(found) for found in judge_wire(report).unlisted] == []


@pytest.mark.parametrize(("client", "scenario"), CELLS)
def test_what_clients_see(brokers: tuple[Running, Running], client: str, scenario: str) -> None:
    expected, actual = brokers
    cell = compare_cell(client, scenario, expected, actual, fast=True)
    assert cell.skipped is None
    assert cell.alike > 0
    assert [str(found) for found in judge_clients([cell]).unlisted] == []
