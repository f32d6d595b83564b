"""Settings of one subscription to metrics of clients (KIP-714): which clients push which metrics, and how often.

Nothing is pushed to this broker yet. Subscriptions are kept, so that tools can prepare them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from oncelog.broker.base.regex import check_regex
from oncelog.broker.config.keys import CLUSTER_WIDE, ConfigKey, table
from oncelog.broker.config.values import INT, LIST, BadValueError
from oncelog.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping

K = ConfigKey

INTERVAL_MS_MIN: Final = 100
INTERVAL_MS_MAX: Final = 3_600_000
MATCH_LENGTH_MAX: Final = 512
"""Kafka has no limit. To compile an expression takes time on the event loop, up to 0.3 ms for three characters."""

CLIENT_METRICS_KEYS: Final = table(
    (
        K("interval.ms", INT, "300000", None, CLUSTER_WIDE, "How often a client pushes its metrics."),
        K("match", LIST, "", None, CLUSTER_WIDE, "Clients that push, as name=pattern each; empty means every client."),
        K("metrics", LIST, "", None, CLUSTER_WIDE, "Prefixes of the names of metrics that are pushed; * means all."),
    )
)

SELECTORS: Final = frozenset(
    f"client_{what}"
    for what in ("id", "instance_id", "software_name", "software_version", "source_address", "source_port")
)


def check_client_metrics(configs: Mapping[str, str]) -> None:
    """Raises KafkaError for what a subscription may not be set to, with the code that Kafka has for it."""
    for name in configs:
        if name not in CLIENT_METRICS_KEYS:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {name}")
    values = {name: _parsed(name, text) for name, text in configs.items()}
    interval_ms = values.get("interval.ms", INTERVAL_MS_MIN)
    assert isinstance(interval_ms, int)
    if not INTERVAL_MS_MIN <= interval_ms <= INTERVAL_MS_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Invalid value {interval_ms} for interval.ms, interval must be between {INTERVAL_MS_MIN} and"
            f" {INTERVAL_MS_MAX} (1 hour)",
        )
    patterns = values.get("match", [])
    assert isinstance(patterns, list)
    if len(configs.get("match", "")) > MATCH_LENGTH_MAX:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"match must not be longer than {MATCH_LENGTH_MAX} characters")
    for pattern in patterns:
        _check_pattern(pattern)


def _parsed(name: str, text: str) -> object:
    try:
        value = CLIENT_METRICS_KEYS[name].parse(text)
    except BadValueError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, error.for_clients) from None
    if isinstance(value, list) and "" in value:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Configuration '{name}' values must not be empty.")
    return value


def _check_pattern(pattern: str) -> None:
    name, _, regex = (part.strip() for part in pattern.partition("="))
    refused = f"Illegal client matching pattern: {pattern}"
    if name not in SELECTORS:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{refused}; it must be name=pattern, with {_NAMES}")
    if not regex or "=" in regex:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{refused}; it must be name=pattern with one equals sign")
    try:
        check_regex(regex)
    except KafkaError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{refused}; {error.message}") from None


_NAMES = f"one of these names: {', '.join(sorted(SELECTORS))}"
