from __future__ import annotations

from conformance.observations import Difference, differences


def test_equal_observations_have_no_differences() -> None:
    seen = {"a": [1, {"b": None}], "c": "x"}

    assert list(differences(seen, {"c": "x", "a": [1, {"b": None}]})) == []


def test_difference_is_told_at_its_place() -> None:
    expected = {"a": [{"offset": 1}, {"offset": 2}]}

    found = list(differences(expected, {"a": [{"offset": 1}, {"offset": 7}]}))

    assert found == [Difference("/a[1]/offset", 2, 7)]


def test_missing_and_surplus_keys_differ() -> None:
    found = list(differences({"a": 1}, {"b": 1}))

    assert found == [Difference("/a", 1, "(absent)"), Difference("/b", "(absent)", 1)]


def test_lists_of_unequal_length_differ_as_a_whole() -> None:
    assert list(differences([1], [1, 2])) == [Difference("", [1], [1, 2])]


def test_true_and_one_differ() -> None:
    assert list(differences(True, 1)) == [Difference("", True, 1)]
