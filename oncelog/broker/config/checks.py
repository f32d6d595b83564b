"""Whether settings may be: of topics and groups, of a broker as a whole, and of dynamic changes to brokers.

A bad topic or group setting is INVALID_CONFIG. For brokers Kafka answers INVALID_REQUEST where a value is bad
or may not change (KAFKA-13609), and so do we. A name that nobody knows is refused; Kafka would keep it for
plugins, which do not exist here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.config import no_effect
from oncelog.broker.config.broker_config import (
    BROKER_KEYS,
    BrokerConfig,
    Setting,
    parse_setting,
    unknown_setting,
)
from oncelog.broker.config.group_keys import GROUP_KEYS, broker_bounds, broker_synonym
from oncelog.broker.config.topic_keys import TOPIC_KEYS
from oncelog.broker.config.values import BadValueError, ConfigError, Value
from oncelog.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# Each of the first may not be above the second.
_ORDERED = (
    ("log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    ("replica.fetch.wait.max.ms", "replica.lag.time.max.ms"),
    ("replica.fetch.wait.max.ms", "replica.socket.timeout.ms"),
    *(
        pair
        for name in GROUP_KEYS
        for pair in (
            (broker_bounds(name)[0], broker_synonym(name)),
            (broker_synonym(name), broker_bounds(name)[1]),
        )
    ),
)


def check_topic_configs(overrides: Mapping[str, str], config: BrokerConfig) -> None:
    """Raises INVALID_CONFIG for a topic setting that is unknown or bad, and for two that contradict."""
    for name, text in overrides.items():
        key = TOPIC_KEYS.get(name)
        if key is None:
            raise _invalid(f"Unknown topic config name: {name}{_hint(name, TOPIC_KEYS)}")
        try:
            key.parse(text)
        except BadValueError as error:
            raise _invalid(error.for_clients) from None
    _check_ordered_topic(overrides, config)
    if config.topic_value("remote.storage.enable", overrides):
        raise _invalid("remote.storage.enable cannot be true: there is no tiered storage")


def check_group_configs(overrides: Mapping[str, str], config: BrokerConfig) -> None:
    """Raises INVALID_CONFIG for a group setting that is unknown, bad or outside the broker's bounds."""
    for name, text in overrides.items():
        key = GROUP_KEYS.get(name)
        if key is None:
            raise _invalid(f"Unknown group config name: {name}{_hint(name, GROUP_KEYS)}")
        try:
            value = key.parse(text)
        except BadValueError as error:
            raise _invalid(error.for_clients) from None
        low, high = broker_bounds(name)
        assert isinstance(value, int)
        if value < config.int(low):
            raise _invalid(f"{name} must be greater than or equal to {low}; {value} is below {config.int(low)}")
        if value > config.int(high):
            raise _invalid(f"{name} must be less than or equal to {high}; {value} is above {config.int(high)}")


def check_dynamic_configs(overrides: Mapping[str, str], config: BrokerConfig) -> None:
    """Raises INVALID_REQUEST where a broker's or the cluster's dynamic settings may not be as a whole.

    Kafka answers with INVALID_CONFIG only for topics and groups (KAFKA-13609).
    """
    try:
        for name, text in overrides.items():
            _check_may_change(name)
            parse_setting(Setting(name, text, ""))
        check_broker_config(config.with_overrides(config.dynamic_default, overrides))
    except ConfigError as error:
        message = error.for_clients if isinstance(error, BadValueError) else str(error)
        raise KafkaError(ErrorCode.INVALID_REQUEST, message) from None


def check_broker_config(config: BrokerConfig) -> None:
    """Raises ConfigError where settings of a broker contradict each other, in one line."""
    for low, high in _ORDERED:
        if config.int(low) > config.int(high):
            raise ConfigError(f"{low} ({config.int(low)}) must not be above {high} ({config.int(high)})")
    for name in ("log.retention.ms", "log.retention.minutes", "log.retention.hours"):
        if config.value(name) == 0:
            raise ConfigError(f"bad value for {name}: 0 must be at least 1, or -1 for no limit")
    for name in ("log.roll.ms", "log.roll.jitter.ms", "log.flush.interval.ms"):
        _check_not_below(name, config.value(name), 1 if name == "log.roll.ms" else 0)
    for name in ("socket.send.buffer.bytes", "socket.receive.buffer.bytes"):
        if config.int(name) < -1 or config.int(name) == 0:
            raise ConfigError(f"bad value for {name}: {config.int(name)} must be at least 1, or -1 for the OS default")
    connection_overrides(config)
    _check_identity(config)


def connection_overrides(config: BrokerConfig) -> dict[str, int]:
    """`max.connections.per.ip.overrides` as a table."""
    name = "max.connections.per.ip.overrides"
    table: dict[str, int] = {}
    for pair in filter(None, (part.strip() for part in config.text(name).split(","))):
        host, _, count = pair.rpartition(":")
        if not host or not count.isascii() or not count.isdigit():
            raise ConfigError(f'bad value for {name}: "{pair}" must be host:count')
        table[host] = int(count)
    return table


def _check_identity(config: BrokerConfig) -> None:
    older = config.value("broker.id")
    if "node.id" in config.static and isinstance(older, int) and older not in (-1, config.int("node.id")):
        raise ConfigError(f"broker.id ({older}) and node.id ({config.int('node.id')}) must be the same")
    name = "log.dirs" if config.value("log.dirs") else "log.dir"
    directories = config.list(name)
    if len(directories) != 1 or not directories[0]:
        shown = f"{len(directories)} are given" if directories else "none is given"
        raise ConfigError(f"bad value for {name}: the data lives in one directory, {shown}")


def _check_not_below(name: str, value: Value, low: int) -> None:
    if isinstance(value, int) and value < low:
        raise ConfigError(f"bad value for {name}: {value} must be at least {low}")


def _check_may_change(name: str) -> None:
    key = BROKER_KEYS.get(name)
    if key is None and no_effect.type_of(name) is None:
        raise ConfigError(unknown_setting(name))
    if not (key.dynamic if key else no_effect.is_dynamic(name)):
        raise ConfigError(f"Cannot update these configs dynamically: [{name}]")
    if name.startswith("ssl."):
        raise ConfigError(f"{name} can change per listener only, as listener.name.<listener>.{name}")


def _check_ordered_topic(overrides: Mapping[str, str], config: BrokerConfig) -> None:
    low, high = "min.compaction.lag.ms", "max.compaction.lag.ms"
    low_value, high_value = config.topic_value(low, overrides), config.topic_value(high, overrides)
    assert isinstance(low_value, int)
    assert isinstance(high_value, int)
    if low_value > high_value:
        raise _invalid(f"{low} ({low_value}) must not be above {high} ({high_value})")


def _hint(name: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, list(known), 1, 0.8)
    return f' (did you mean "{close[0]}"?)' if close else ""


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)
