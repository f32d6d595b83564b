"""What DescribeConfigs tells of brokers, topics, groups and client metrics: settings, values, sources.

The synonyms of a setting are all places that could set it, the strongest first: this broker's dynamic
settings, the cluster's, what the broker was started with, the default. As in Kafka, those before the
setting's own name are left out, so that `log.roll.ms` does not show a `log.roll.hours` alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from oncelog.broker.config import no_effect
from oncelog.broker.config.broker_config import BROKER_KEYS, BrokerConfig
from oncelog.broker.config.client_metrics_keys import CLIENT_METRICS_KEYS
from oncelog.broker.config.group_keys import GROUP_KEYS, broker_synonym
from oncelog.broker.config.keys import ConfigKey
from oncelog.broker.config.topic_keys import TOPIC_KEYS, TOPIC_SYNONYMS
from oncelog.broker.config.values import PASSWORD, format_value, parse
from oncelog.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

DYNAMIC_TOPIC: Final = 1
DYNAMIC_BROKER: Final = 2
DYNAMIC_DEFAULT_BROKER: Final = 3
STATIC_BROKER: Final = 4
DEFAULT: Final = 5
DYNAMIC_BROKER_LOGGER: Final = 6
DYNAMIC_CLIENT_METRICS: Final = 7
DYNAMIC_GROUP: Final = 8

_ALTERNATIVES: Final = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)


class Synonym(NamedTuple):
    name: str
    value: str | None
    source: int


class ConfigEntry(NamedTuple):
    name: str
    value: str | None
    type: int
    source: int
    read_only: bool
    sensitive: bool
    synonyms: tuple[Synonym, ...]
    documentation: str

    @property
    def is_default(self) -> bool:
        return self.source == DEFAULT


def describe_broker(config: BrokerConfig) -> Iterator[ConfigEntry]:
    """All settings of this broker in the order of their names, with those of TLS and SASL, which have no effect yet,
    and others without effect that were set."""
    for name in sorted(
        {*BROKER_KEYS, *no_effect.described(), *config.static, *config.dynamic_default, *config.dynamic_broker}
    ):
        yield _broker_entry(config, name, _broker_synonyms(config, name))


def describe_cluster_default(config: BrokerConfig) -> Iterator[ConfigEntry]:
    """The dynamic settings that hold for all brokers."""
    for name in sorted(config.dynamic_default):
        synonyms = [each for each in _broker_synonyms(config, name) if each.source == DYNAMIC_DEFAULT_BROKER]
        yield _broker_entry(config, name, synonyms, config.dynamic_default[name])


def describe_topic(config: BrokerConfig, overrides: Mapping[str, str]) -> Iterator[ConfigEntry]:
    """All settings of a topic in the order of their names."""

    def inherited(name: str) -> list[Synonym]:
        synonyms = TOPIC_SYNONYMS.get(name)
        return _broker_synonyms(config, synonyms[0][0]) if synonyms else []

    for name, key in TOPIC_KEYS.items():
        value = format_value(key.type, config.topic_value(name, overrides))
        yield _entry(key, value, name in overrides, DYNAMIC_TOPIC, inherited)


def describe_group(config: BrokerConfig, overrides: Mapping[str, str]) -> Iterator[ConfigEntry]:
    """All settings of a group in the order of their names."""

    def inherited(name: str) -> list[Synonym]:
        return _broker_synonyms(config, broker_synonym(name))

    for name, key in GROUP_KEYS.items():
        own = overrides.get(name)
        value = format_value(key.type, config.value(broker_synonym(name)) if own is None else key.parse(own))
        yield _entry(key, value, own is not None, DYNAMIC_GROUP, inherited)


def describe_client_metrics(overrides: Mapping[str, str]) -> Iterator[ConfigEntry]:
    """All settings of a subscription in the order of their names; one that nobody made has the defaults."""
    for name, key in CLIENT_METRICS_KEYS.items():
        text = overrides.get(name, key.default)
        assert text is not None
        value = format_value(key.type, key.parse(text))
        yield _entry(key, value, name in overrides, DYNAMIC_CLIENT_METRICS, lambda _: [])


def _entry(
    key: ConfigKey, value: str | None, own: bool, source: int, inherited: Callable[[str], list[Synonym]]
) -> ConfigEntry:
    synonyms = inherited(key.name)
    if own:
        synonyms.insert(0, Synonym(key.name, value, source))
    strongest = synonyms[0].source if synonyms else DEFAULT
    return ConfigEntry(key.name, value, key.type, strongest, False, key.sensitive, tuple(synonyms), key.doc)


def _broker_entry(config: BrokerConfig, name: str, synonyms: list[Synonym], text: str | None = None) -> ConfigEntry:
    key = BROKER_KEYS.get(name)
    config_type = key.type if key else no_effect.type_of(name) or PASSWORD
    sensitive = config_type == PASSWORD
    text = config.text_of(name) if text is None else text
    if name in ("node.id", "broker.id"):
        # Either name gives the number of the broker, whichever of them was set.
        text = str(config.node_id)
    read_only = not key.dynamic if key else not no_effect.is_dynamic(name)
    return ConfigEntry(
        name,
        None if sensitive or text is None else format_value(config_type, parse(config_type, text)),
        config_type,
        synonyms[0].source if synonyms else DEFAULT,
        read_only,
        sensitive,
        tuple(synonyms),
        _documentation(name, key),
    )


def _documentation(name: str, key: ConfigKey | None) -> str:
    if key is None:
        return f"{no_effect.note(name)}."
    return f"{key.doc} It has no effect in this version." if name in no_effect.WITHOUT_EFFECT else key.doc


def _broker_synonyms(config: BrokerConfig, name: str) -> list[Synonym]:
    names = _alternatives(name)
    levels: tuple[tuple[int, Mapping[str, str]], ...] = (
        (DYNAMIC_BROKER, config.dynamic_broker),
        (DYNAMIC_DEFAULT_BROKER, config.dynamic_default),
        (STATIC_BROKER, {each: config.static[each].value for each in names if each in config.static}),
        (DEFAULT, {each: text for each in names if (text := _default(each)) is not None}),
    )
    found = [
        Synonym(each, None if _is_secret(each) else level[each], source)
        for source, level in levels
        for each in names
        if each in level
    ]
    own = next((index for index, synonym in enumerate(found) if synonym.name == name), len(found))
    return found[own:]


def _alternatives(name: str) -> tuple[str, ...]:
    if name == "log.flush.interval.ms":
        return (name, "log.flush.scheduler.interval.ms")
    return next((names for names in _ALTERNATIVES if name in names), (name,))


def _default(name: str) -> str | None:
    key = BROKER_KEYS.get(name)
    return key.default if key else no_effect.default_of(name)


def _is_secret(name: str) -> bool:
    key = BROKER_KEYS.get(name)
    return key.sensitive if key else no_effect.type_of(name) in (None, PASSWORD)
