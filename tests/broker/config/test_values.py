from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.config.values import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    PASSWORD,
    SHORT,
    STRING,
    ConfigError,
    OneOf,
    Range,
    ThrottledReplicas,
    at_least,
    format_value,
    parse,
    parse_checked,
)


@pytest.mark.parametrize(
    ("config_type", "text", "value"),
    [
        (BOOLEAN, " TRUE ", True),
        (BOOLEAN, "false", False),
        (INT, " 42 ", 42),
        (INT, "+5", 5),
        (INT, "-2147483648", -(2**31)),
        (SHORT, "32767", 32767),
        (LONG, "9223372036854775807", 2**63 - 1),
        (DOUBLE, "0.5", 0.5),
        (DOUBLE, "1.7976931348623157E308", 1.7976931348623157e308),
        (DOUBLE, "3", 3.0),
        (LIST, "", []),
        (LIST, " a , b,c ", ["a", "b", "c"]),
        (LIST, "a,,b", ["a", "", "b"]),
        (STRING, " x y ", "x y"),
    ],
)
def test_parse(config_type: int, text: str, value: object) -> None:
    assert parse(config_type, text) == value


@pytest.mark.parametrize(
    ("config_type", "text"),
    [
        (BOOLEAN, "yes"),
        (BOOLEAN, ""),
        (INT, ""),
        (INT, "1e3"),
        (INT, "0x10"),
        (INT, "1_000"),
        (INT, "٣"),
        (INT, "+-1"),
        (INT, "2147483648"),
        (SHORT, "32768"),
        (LONG, "9" * 5000),
        (DOUBLE, "0,5"),
        (DOUBLE, "nan"),
        (DOUBLE, "1_0.0"),
        (DOUBLE, "-"),
    ],
)
def test_parse_refuses(config_type: int, text: str) -> None:
    with pytest.raises(ValueError, match=r"true or false|number"):
        parse(config_type, text)


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (at_least(1), [1, 2**62], [0, -1]),
        (Range(1, 9, -1), [1, 9, -1], [0, 10, -2]),
        (Range(0, 1), [0.0, 0.5, 1.0], [-0.1, 1.1]),
        (OneOf("compact", "delete"), [["compact"], ["compact", "delete"], []], [["Delete"], ["x"], [""]]),
        (OneOf("a", ignore_case=True), ["A", "a"], ["b"]),
        (ThrottledReplicas(), [[], ["*"], ["0:1", "1:2"]], [["abc"], ["*", "0:1"], ["1:"], ["-1:2"]]),
    ],
)
def test_checks(check: Range, good: list[object], bad: list[object]) -> None:
    assert [value for value in good if not check.allows(value)] == []  # type: ignore[arg-type]
    assert [value for value in bad if check.allows(value)] == []  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("config_type", "check", "text", "line"),
    [
        (INT, at_least(1), "0", 'bad value for k: "0" must be at least 1'),
        (INT, at_least(1), "abc", 'bad value for k: "abc" must be a whole number of 32 bits, at least 1'),
        (INT, None, "abc", 'bad value for k: "abc" must be a whole number of 32 bits'),
        (STRING, OneOf("a", "b"), "c", 'bad value for k: "c" must be one of a, b'),
        (BOOLEAN, None, "ja", 'bad value for k: "ja" must be true or false'),
        (LONG, Range(1, 9, -1), "0", 'bad value for k: "0" must be between 1 and 9, or -1'),
    ],
)
def test_the_line_names_key_value_and_what_may_be(config_type: int, check: Range | None, text: str, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_checked("k", config_type, check, text)
    assert str(caught.value) == line


def test_the_line_names_the_source_and_hides_a_password() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_checked("k", INT, None, "x", "environment KAFKA_K")
    assert str(caught.value).startswith("bad value for k (from environment KAFKA_K): ")
    with pytest.raises(ConfigError) as caught:
        parse_checked("k", PASSWORD, OneOf("a"), "secret")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (0.5, "0.5"),
        (1.0, "1.0"),
        (1e7, "1.0E7"),
        (12345678.0, "1.2345678E7"),
        (9999999.0, "9999999.0"),
        (0.001, "0.001"),
        (0.00012, "1.2E-4"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
    ],
)
def test_doubles_are_written_as_java_writes_them(value: float, text: str) -> None:
    assert format_value(DOUBLE, value) == text


def test_format_of_the_other_types() -> None:
    assert format_value(BOOLEAN, True) == "true"
    assert format_value(LIST, ["a", "b"]) == "a,b"
    assert format_value(LONG, -1) == "-1"
    assert format_value(STRING, None) is None


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_survives_its_text(value: float) -> None:
    text = format_value(DOUBLE, value)
    assert text is not None
    assert parse(DOUBLE, text) == value


@given(st.sampled_from([BOOLEAN, SHORT, INT, LONG, DOUBLE, LIST, STRING]), st.text())
def test_any_text_is_a_value_or_a_value_error(config_type: int, text: str) -> None:
    try:
        value = parse(config_type, text)
    except ValueError:
        return
    shown = format_value(config_type, value)
    assert shown is not None
    assert parse(config_type, shown) == value
