"""Regular expressions of clients, in the syntax of RE2, which Kafka uses as well: subscriptions (KIP-848), and the
pattern of transactional ids (KIP-1152).

RE2 matches in time linear in its input, so that an expression cannot stall the broker. Its package is optional: a
broker without it refuses what needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

from oncelog.protocol.errors import ErrorCode, KafkaError

_PATTERN_LENGTH_MAX = 8192


def check_regex(regex: str) -> None:
    _compile(regex)


def matcher(regex: str) -> Callable[[str], object]:
    """Of whole names. KafkaError for what is no expression."""
    fullmatch: Callable[[str], object] = _compile(regex).fullmatch
    return fullmatch


def matching(regex: str, topics: Iterable[str]) -> frozenset[str]:
    """Topics whose whole name matches. An expression from the log that cannot be compiled here matches none."""
    try:
        fullmatch = matcher(regex)
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
