"""The table of differences itself: a line must be too narrow to hide a regression, and say why it is there."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

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


def test_only_share_groups_streams_groups_and_kraft_voters_are_not_served() -> None:
    telemetry = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}
    missing = set(ApiKey) - {key for key, _ in advertised()} - telemetry
    assert all(re.search("SHARE|STREAMS|VOTER", key.name) for key in missing)
    patterns = [entry.field for entry in LISTED if entry.field.startswith("/api_keys/")]
    covered = {key for key in ApiKey if any(fnmatchcase(f"/api_keys/{int(key)}", pattern) for pattern in patterns)}
    assert covered == missing


@pytest.mark.parametrize("entry", LISTED, ids=lambda entry: entry.id)
def test_a_line_has_a_reason(entry: Listed) -> None:
    assert entry.reason.endswith(".")
    referred = re.match(r"(?:As|Follows from) `([a-z0-9-]+)`", entry.reason)
    if referred is None:
        assert len(entry.reason) >= 30
    else:
        (other,) = (listed for listed in LISTED if listed.id == referred[1])
        assert not other.reason.startswith("As `"), "a reason is one step away"
