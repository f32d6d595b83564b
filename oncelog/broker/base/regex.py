"""Regular expressions of clients, in the syntax of RE2: subscriptions (KIP-848), patterns of transactional ids
(KIP-1152), which are RE2's in Kafka as well, and the clients that a metrics subscription is for (KIP-714).

RE2 matches in time linear in its input, so that an expression cannot stall the broker. Its package is loaded with the
first expression (19 ms, 3.4 MB); a broker without it refuses what needs it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from typing import Any

from oncelog.protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)

MISSING_ENGINE = (
    "the package google-re2 is missing, so subscriptions by a regular expression are refused: pip install google-re2"
)
_PATTERN_LENGTH_MAX = 8192
_UNICODE_CLASSES_MAX = 16
r"""Each `\p{…}` takes RE2 0.1 to 1 ms to parse, and the event loop waits for it."""
_PROGRAM_BYTES_MAX = 1 << 20
"""What counted repetitions may grow to; an alternative of 700 topics takes a tenth of it."""


def has_engine() -> bool:
    """Whether the package is there; does not load it."""
    return PathFinder.find_spec("re2") is not None


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
    if regex.count("\\p") + regex.count("\\P") > _UNICODE_CLASSES_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"the regular expression has more than {_UNICODE_CLASSES_MAX} Unicode classes (\\p or \\P)",
        )
    try:
        re2: Any = import_module("re2")
    except ImportError:
        _log_missing_engine()
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, f"on this broker {MISSING_ENGINE}") from None
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = _PROGRAM_BYTES_MAX
    try:
        return re2.compile(regex, options)
    except re2.error as error:
        reason = error.args[0]
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else reason
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION, f"`{regex}` is not a valid regular expression: {text}"
        ) from None


@cache
def _log_missing_engine() -> None:
    """Once, as its clients repeat what they want every few seconds."""
    logger.warning("%s", MISSING_ENGINE)
