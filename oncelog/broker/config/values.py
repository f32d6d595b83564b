"""Values of settings: how each type is read from text, checked and written back, as Kafka does it.

Surrounding white space never counts. A list is comma separated; an empty text is the empty list. A number is
plain decimal with an optional sign and must fit its Java type. The type numbers are those of DescribeConfigs.
"""

from __future__ import annotations

from typing import Final, TypeAlias

BOOLEAN: Final = 1
STRING: Final = 2
INT: Final = 3
SHORT: Final = 4
LONG: Final = 5
DOUBLE: Final = 6
LIST: Final = 7
CLASS: Final = 8
PASSWORD: Final = 9

Value: TypeAlias = bool | int | float | str | list[str] | None

_BITS = {SHORT: 16, INT: 32, LONG: 64}
_NEEDED = {
    BOOLEAN: "true or false",
    SHORT: "a whole number of 16 bits",
    INT: "a whole number of 32 bits",
    LONG: "a whole number of 64 bits",
    DOUBLE: "a number",
}
_CLAUSES = {
    BOOLEAN: "Expected value to be either true or false",
    SHORT: "Not a number of type SHORT",
    INT: "Not a number of type INT",
    LONG: "Not a number of type LONG",
    DOUBLE: "Not a number of type DOUBLE",
}
_DECIMAL_CHARACTERS = frozenset("0123456789+-.eE")


class ConfigError(Exception):
    """A setting is unknown or bad; the text is one line for the person who made it."""


class BadValueError(ConfigError):
    """`for_clients` begins as Kafka's own error does, which scripts look for."""

    def __init__(self, message: str, for_clients: str) -> None:
        super().__init__(message)
        self.for_clients = for_clients


class Check:
    """What a value must satisfy beyond its type; `str()` completes the sentence "must be …"."""

    __slots__ = ()

    def allows(self, value: Value) -> bool:
        raise NotImplementedError


class Range(Check):
    """A number within bounds, or one value beside them."""

    __slots__ = ("also", "high", "low")

    def __init__(self, low: float, high: float | None = None, also: int | None = None) -> None:
        self.low = low
        self.high = high
        self.also = also

    def allows(self, value: Value) -> bool:
        assert isinstance(value, int | float)
        return value == self.also or (self.low <= value and (self.high is None or value <= self.high))

    def __str__(self) -> str:
        bounds = f"at least {self.low}" if self.high is None else f"between {self.low} and {self.high}"
        return bounds if self.also is None else f"{bounds}, or {self.also}"


class OneOf(Check):
    """One of a few words; of a list, every element."""

    __slots__ = ("ignore_case", "words")

    def __init__(self, *words: str, ignore_case: bool = False) -> None:
        self.words = words
        self.ignore_case = ignore_case

    def allows(self, value: Value) -> bool:
        given = value if isinstance(value, list) else [value]
        if self.ignore_case:
            return all(str(word).lower() in self.words for word in given)
        return all(word in self.words for word in given)

    def __str__(self) -> str:
        return f"one of {', '.join(self.words)}"


class ThrottledReplicas(Check):
    """`*`, or pairs of a partition and a broker."""

    __slots__ = ()

    def allows(self, value: Value) -> bool:
        assert isinstance(value, list)
        return value == ["*"] or all(_is_pair(pair) for pair in value)

    def __str__(self) -> str:
        return "* or a list of partition:broker pairs"


def at_least(low: float) -> Range:
    return Range(low)


def parse(config_type: int, text: str) -> Value:
    """The value of a text; ValueError says what was needed instead."""
    text = text.strip()
    if config_type == BOOLEAN:
        return _parse_boolean(text)
    if config_type in _BITS:
        return _parse_whole(config_type, text)
    if config_type == DOUBLE:
        return _parse_double(text)
    if config_type == LIST:
        return [part.strip() for part in text.split(",")] if text else []
    return text


def parse_checked(name: str, config_type: int, check: Check | None, text: str, source: str = "") -> Value:
    """As `parse`, with the bounds; a failure is one line that names the key, the value and what may be."""
    try:
        value = parse(config_type, text)
        if check is not None and not check.allows(value):
            raise ValueError(str(check))
    except ValueError as error:
        needed = str(error)
        if check is not None and needed != str(check):
            needed += f", {check}" if isinstance(check, Range) else ""
        shown = "the value" if config_type == PASSWORD else f'"{text}"'
        origin = f" (from {source})" if source else ""
        clause = _clause_of_kafka(config_type, check, text)
        for_clients = (
            f"Invalid value {'[hidden]' if config_type == PASSWORD else text} for configuration {name}{clause}"
        )
        if clause != f": Value must be {needed}":
            for_clients += f"; it must be {needed}"
        raise BadValueError(f"bad value for {name}{origin}: {shown} must be {needed}", for_clients) from None
    return value


def _clause_of_kafka(config_type: int, check: Check | None, text: str) -> str:
    try:
        value = parse(config_type, text)
    except ValueError:
        return f": {_CLAUSES[config_type]}"
    if not isinstance(check, Range):
        return ""
    assert isinstance(value, int | float)
    return (
        f": Value must be at least {check.low}" if value < check.low else f": Value must be no more than {check.high}"
    )


def format_value(config_type: int, value: Value) -> str | None:
    """The text of a value in DescribeConfigs."""
    if value is None:
        return None
    if config_type == BOOLEAN:
        return "true" if value else "false"
    if config_type == DOUBLE:
        assert isinstance(value, float)
        return _format_double(value)
    if isinstance(value, list):
        return ",".join(value)
    return str(value)


def _parse_boolean(text: str) -> bool:
    word = text.lower()
    if word not in ("true", "false"):
        raise ValueError(_NEEDED[BOOLEAN])
    return word == "true"


def _parse_whole(config_type: int, text: str) -> int:
    limit = 1 << (_BITS[config_type] - 1)
    digits = text[1:] if text.startswith(("+", "-")) else text
    # The length is bounded first, because Python's conversion takes quadratic time.
    if not _is_digits(digits) or len(digits) > 64 or not -limit <= int(text) < limit:
        raise ValueError(_NEEDED[config_type])
    return int(text)


def _parse_double(text: str) -> float:
    try:
        if _DECIMAL_CHARACTERS.issuperset(text):
            return float(text)
    except ValueError:
        pass
    raise ValueError(_NEEDED[DOUBLE])


def _is_digits(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _is_pair(text: str) -> bool:
    partition, colon, broker = text.partition(":")
    return bool(colon) and _is_digits(partition) and _is_digits(broker)


def _format_double(value: float) -> str:
    """Java's `Double.toString`: plain between 10^-3 and 10^7, else the shortest mantissa with `E`."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    text = next(text for digits in range(17) if float(text := f"{value:.{digits}e}") == value)
    mantissa, _, exponent = text.partition("e")
    return f"{mantissa}{'' if '.' in mantissa else '.0'}E{int(exponent)}"
