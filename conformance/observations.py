"""Compares what a client saw on two brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.client import Json

ABSENT = "(absent)"


class Difference(NamedTuple):
    path: str
    expected: Json
    actual: Json

    def __str__(self) -> str:
        return f"{self.path}: expected {self.expected!r}, saw {self.actual!r}"


def differences(expected: Json, actual: Json, path: str = "") -> Iterator[Difference]:
    """Walks both observations and yields each place where they part, at the finest level."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in [*expected, *(key for key in actual if key not in expected)]:
            yield from differences(expected.get(key, ABSENT), actual.get(key, ABSENT), f"{path}/{key}")
    elif isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        for index, (left, right) in enumerate(zip(expected, actual, strict=True)):
            yield from differences(left, right, f"{path}[{index}]")
    elif type(expected) is not type(actual) or expected != actual:
        yield Difference(path, expected, actual)
