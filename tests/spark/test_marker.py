"""Recognising what was committed."""

from __future__ import annotations

import pytest

from oncelog.spark.marker import Marker, decode_marker, newest_marker
from oncelog.spark.query import parse_kafka_offsets


def test_a_marker_survives_its_encoding() -> None:
    for marker in (Marker("6653a371", 17), Marker("6653a371", 17, "9f86d081")):
        assert decode_marker(marker.encode()) == marker


def test_a_marker_of_the_first_version_fits_any_plan() -> None:
    first = decode_marker('{"query":"6653a371","batch":17}')
    assert first == Marker("6653a371", 17)
    assert not first.contradicts(Marker("6653a371", 17, "9f86d081"))


def test_one_number_for_two_plans_is_a_contradiction() -> None:
    marker = Marker("a", 3, "9f86d081")
    assert marker.contradicts(Marker("a", 3, "60303ae2"))
    assert not marker.contradicts(marker)
    assert not marker.contradicts(Marker("a", 4, "60303ae2"))


@pytest.mark.parametrize("metadata", ["", "hello", "[]", "{}", '{"query": "x"}', '{"query": "x", "batch": "y"}'])
def test_metadata_of_others_is_no_marker(metadata: str) -> None:
    assert decode_marker(metadata) is None


def test_the_newest_batch_of_the_own_query_counts() -> None:
    metadata = [Marker("a", 3).encode(), "", Marker("a", 5).encode(), Marker("b", 9).encode()]
    assert newest_marker(metadata, "a") == Marker("a", 5)
    assert newest_marker(metadata, "c") == Marker("b", 9)
    assert newest_marker(["", "x"], "a") is None


def test_offsets_as_sparks_source_writes_them() -> None:
    assert parse_kafka_offsets('{"in":{"0":17,"1":4},"too":{"0":1}}') == {("in", 0): 17, ("in", 1): 4, ("too", 0): 1}
