"""Subscriptions by regular expression, in the syntax of RE2, which Kafka uses as well (KIP-848).

RE2 matches in time linear in its input, so that an expression of a client cannot stall the broker. Its package is
optional: a broker without it refuses such subscriptions.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

from oncelog.protocol.errors import ErrorCode, KafkaError

_PATTERN_LENGTH_MAX = 8192


def check_regex(regex: str) -> None:
    _compile(regex)


def matching(regex: str, topics: Iterable[str]) -> frozenset[str]:
    """Topics whose whole name matches. An expression from the log that cannot be compiled here matches none."""
    try:
        fullmatch = _compile(regex).fullmatch
    except KafkaError:
        return frozenset()
    return frozenset(topic for topic in topics if fullmatch(topic))


def _compile(regex: str) -> Any:
    if len(regex) > _PATTERN_LENGTH_MAX:
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, "the regular expression is too long")
    try:
        re2: Any = import_module("re2")
    except ImportError:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            "this broker has no regular expressions: install oncelog[regex] for them",
        ) from None
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    try:
        return re2.compile(regex, options)
    except re2.error as error:
        reason = error.args[0]
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else reason
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION, f"`{regex}` is not a valid regular expression: {text}"
        ) from None
