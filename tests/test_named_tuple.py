"""Our NamedTuple against the one of `typing`, which type checkers take it for."""

from __future__ import annotations

import pickle
import typing

import pytest

from oncelog import named_tuple


class Ours(named_tuple.NamedTuple):
    """A point."""

    x: int
    y: float | None = None
    """Up."""
    UNIT = "m"

    @property
    def double(self) -> int:
        return self.x * 2

    @classmethod
    def origin(cls) -> Ours:
        return cls(0, 0)

    def __str__(self) -> str:
        return f"{self.x}/{self.y}"


class Theirs(typing.NamedTuple):
    """A point."""

    x: int
    y: float | None = None


def test_the_class_is_that_of_typing() -> None:
    for name in ("__bases__", "__doc__", "__match_args__", "__module__", "__slots__", "_fields", "_field_defaults"):
        assert getattr(Ours, name) == getattr(Theirs, name), name
    assert typing.get_type_hints(Ours) == typing.get_type_hints(Theirs)
    assert (Ours.__name__, Ours.__qualname__) == ("Ours", "Ours")


def test_values_are_made_compared_and_changed_alike() -> None:
    assert Ours(1) == Theirs(1) == (1, None)
    assert hash(Ours(1, 2)) == hash(Theirs(1, 2))
    assert repr(Ours(1, y=2)) == "Ours(x=1, y=2)"
    assert Ours(1)._replace(y=3) == (1, 3)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        Ours()  # type: ignore[call-arg]


def test_a_class_has_what_its_body_says() -> None:
    assert Ours.UNIT == "m"
    assert Ours(3).double == 6
    assert Ours.origin() == (0, 0)
    assert str(Ours(1)) == "1/None"
    assert pickle.loads(pickle.dumps(Ours(1, 2))) == Ours(1, 2)


def test_a_subclass_has_attributes_of_its_own() -> None:
    class Wider(Ours):
        pass

    wider = Wider(1)._replace(y=2)
    wider.note = "new"  # type: ignore[attr-defined]
    assert (type(wider), wider.y) == (Wider, 2)


def test_what_typing_refuses_is_refused() -> None:
    with pytest.raises(AssertionError, match="a field without a default follows one"):
        type(named_tuple.NamedTuple)(
            "Late", (named_tuple.NamedTuple,), {"__module__": "m", "__annotations__": {"x": "int", "y": "int"}, "x": 1}
        )
    with pytest.raises(AssertionError, match="has no fields"):
        type(named_tuple.NamedTuple)("Empty", (named_tuple.NamedTuple,), {"__module__": "m"})
    with pytest.raises(AssertionError, match="has other bases"):
        type(named_tuple.NamedTuple)(
            "Mixed", (named_tuple.NamedTuple, Exception), {"__module__": "m", "__annotations__": {"x": "int"}}
        )
