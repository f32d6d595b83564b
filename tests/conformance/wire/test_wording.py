"""An error message of ours begins with that of Kafka, or is told as a difference."""

from __future__ import annotations

import pytest

from conformance.observations import Difference
from conformance.wire.compare import UNSPECIFIC, folded

PLACE = "/results/0/error_message"


@pytest.mark.parametrize(
    ("expected", "actual", "is_told"),
    [
        ("GroupId can't be empty.", "GroupId can't be empty. Give one.", False),
        ("GroupId can't be empty.", "GroupId can't be empty: give one", False),
        ("GroupId can't be empty.", "the group id is empty", True),
        ("GroupId can't be empty.", "", True),
        ("GroupId can't be empty.", None, True),
        (None, "a reason", False),
        ("", "a reason", False),
        (None, "", True),
        (next(iter(UNSPECIFIC)), "unknown resource type -1", False),
    ],
)
def test_what_is_told(expected: str | None, actual: str | None, is_told: bool) -> None:
    assert bool(folded([Difference(PLACE, expected, actual)])) == is_told
