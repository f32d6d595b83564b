from __future__ import annotations

import pytest

from oncelog.protocol.primitives import Int32, String
from oncelog.protocol.schema import NO_VERSIONS, Message, Struct, Versions, field


class Inner(Struct):
    number: Int32 = field(default=-1)


class Outer(Message, api_key=99, versions="1-3", flexible="2+"):
    name: String | None = field("2+", nullable="3+", default=None)
    numbers: list[Int32]
    inner: Inner
    maybe: Inner | None = field(nullable="0+", default=None)


class Mistyped(Struct):
    name: str


@pytest.mark.parametrize(
    ("text", "versions"),
    [("3+", Versions(3, 32767)), ("0-4", Versions(0, 4)), ("7", Versions(7, 7)), ("none", NO_VERSIONS)],
)
def test_versions(text: str, versions: Versions) -> None:
    assert Versions.parse(text) == versions


def test_versions_contain_their_bounds_and_nothing_else() -> None:
    assert [version for version in range(6) if version in Versions.parse("2-4")] == [2, 3, 4]
    assert 0 not in NO_VERSIONS
    assert "2" not in Versions.parse("2-4")


def test_fields_that_are_not_given_have_fresh_defaults() -> None:
    one, two = Outer(), Outer()
    assert (one.name, one.numbers, one.inner, one.maybe) == (None, [], Inner(number=-1), None)
    assert one.numbers is not two.numbers
    assert one.inner is not two.inner
    assert one == two


def test_given_fields_are_kept() -> None:
    numbers = [1]
    outer = Outer(name="n", numbers=numbers, maybe=Inner(number=2))
    assert outer.numbers is numbers
    assert repr(outer) == "Outer(name='n', numbers=[1], inner=Inner(number=-1), maybe=Inner(number=2))"
    assert outer != Outer(name="n")


@pytest.mark.parametrize("attempt", range(2), ids=["compiles", "compiled"])
def test_an_unknown_field_is_an_error(attempt: int) -> None:
    with pytest.raises(TypeError, match=r"Inner.__init__\(\) got an unexpected keyword argument 'nmber'"):
        Inner(nmber=attempt)


def test_an_unknown_attribute_is_an_error() -> None:
    with pytest.raises(AttributeError):
        Inner().nmber = 1


def test_an_annotation_that_is_no_type_of_the_protocol_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"Mistyped\.name has a type that the protocol does not know"):
        Mistyped.fields()
