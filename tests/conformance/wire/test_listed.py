"""The table of differences itself: a line must be too narrow to hide a regression, and say why it is there."""

from __future__ import annotations

import re

import pytest

from conformance.card import ANY_CLIENT, FILES
from conformance.clients import CLIENTS
from conformance.wire.compare import advertised
from conformance.wire.listed import Listed, read_listed
from oncelog.protocol.api_keys import ApiKey

LISTED = read_listed()
WIRE = [entry for entry in LISTED if entry.api not in (*CLIENTS, ANY_CLIENT, FILES)]
VERSIONS = {
    name: {version for key, version in advertised() if key.camel == name}
    for name in {key.camel for key, _ in advertised()}
}


@pytest.mark.parametrize("entry", WIRE, ids=lambda entry: entry.id)
def test_a_line_names_an_api_its_versions_and_a_field(entry: Listed) -> None:
    first, _, last = entry.versions.partition("-")
    assert set(range(int(first), int(last or first) + 1)) <= VERSIONS[entry.api]
    assert entry.field != "*"
    assert (entry.expected, entry.actual) != ("*", "*") or entry.field.endswith("_size")
    if entry.case == "*":
        assert entry.field.count("*") <= 1, "either the case or the field has to be told"


def test_all_is_advertised_but_telemetry() -> None:
    """As by a Kafka without a telemetry reporter."""
    missing = set(ApiKey) - {key for key, _ in advertised()}
    assert missing == {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}
    assert not [entry for entry in LISTED if entry.field.startswith("/api_keys/")]


@pytest.mark.parametrize("entry", LISTED, ids=lambda entry: entry.id)
def test_a_line_has_a_reason(entry: Listed) -> None:
    assert entry.reason.endswith(".")
    referred = re.match(r"(?:As|Follows from) `([a-z0-9-]+)`", entry.reason)
    if referred is None:
        assert len(entry.reason) >= 30
    else:
        (other,) = (listed for listed in LISTED if listed.id == referred[1])
        assert not other.reason.startswith("As `"), "a reason is one step away"
