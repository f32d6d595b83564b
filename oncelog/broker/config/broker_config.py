"""The settings of this broker in force: defaults, what it was started with, and what was changed since.

An object never changes; `with_overrides` makes the next one when dynamic settings change (KIP-226).
"""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Final

from oncelog.broker.config import no_effect
from oncelog.broker.config.coordinator_keys import COORDINATOR_KEYS
from oncelog.broker.config.keys import ConfigKey, table
from oncelog.broker.config.log_keys import LOG_KEYS
from oncelog.broker.config.server_keys import SERVER_KEYS
from oncelog.broker.config.topic_keys import TOPIC_KEYS, TOPIC_SYNONYMS
from oncelog.broker.config.values import ConfigError, Value, parse_checked
from oncelog.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

BROKER_KEYS: Final = table(SERVER_KEYS, LOG_KEYS, COORDINATOR_KEYS)


class Setting(NamedTuple):
    """One setting as a person made it, and where."""

    name: str
    value: str
    source: str


class InitialTopic(NamedTuple):
    """A topic to be created if it does not exist."""

    name: str
    partition_count: int = 1
    replication_factor: int = 1
    cleanup_policy: str = ""


class InitialState(NamedTuple):
    """What a new broker begins with, besides its settings."""

    cluster_id: str = ""
    """Of a data directory that has none yet; empty lets the broker choose one."""
    topics: tuple[InitialTopic, ...] = ()


class BrokerConfig:
    """Typed access by Kafka's names: `config.int("num.partitions")`."""

    __slots__ = ("_values", "dynamic_broker", "dynamic_default", "initial", "notes", "static")

    def __init__(
        self,
        settings: Iterable[Setting] = (),
        *,
        dynamic_default: Mapping[str, str] | None = None,
        dynamic_broker: Mapping[str, str] | None = None,
        initial: InitialState | None = None,
        notes: Iterable[str] = (),
    ) -> None:
        self.static: dict[str, Setting] = {setting.name: setting for setting in settings}
        self.dynamic_default: dict[str, str] = dict(dynamic_default or {})
        """What holds for every broker of the cluster."""
        self.dynamic_broker: dict[str, str] = dict(dynamic_broker or {})
        """What holds for this broker alone."""
        self.initial = initial or InitialState()
        self.notes: tuple[str, ...] = tuple(notes)
        """Lines for the person who starts the broker: what was ignored or chosen for them."""
        self._values: dict[str, Value] = {}
        for setting in self.static.values():
            parse_setting(setting)

    def text_of(self, name: str) -> str | None:
        """The text in force, before it is parsed: the newest level that sets the key."""
        if (text := self.dynamic_broker.get(name)) is not None:
            return text
        if (text := self.dynamic_default.get(name)) is not None:
            return text
        if (setting := self.static.get(name)) is not None:
            return setting.value
        key = BROKER_KEYS.get(name)
        return no_effect.default_of(name) if key is None else key.default

    def value(self, name: str) -> Value:
        """The parsed value, or None where the key is not set and has no default."""
        if name not in self._values:
            text = self.text_of(name)
            self._values[name] = None if text is None else BROKER_KEYS[name].parse(text)
        return self._values[name]

    def int(self, name: str) -> builtins.int:
        value = self.value(name)
        assert type(value) is int, f"{name} is {value!r}"
        return value

    def bool(self, name: str) -> builtins.bool:
        value = self.value(name)
        assert type(value) is bool, f"{name} is {value!r}"
        return value

    def float(self, name: str) -> builtins.float:
        value = self.value(name)
        assert type(value) is float, f"{name} is {value!r}"
        return value

    def text(self, name: str) -> str:
        value = self.value(name)
        assert type(value) is str, f"{name} is {value!r}"
        return value

    def list(self, name: str) -> builtins.list[str]:
        value = self.value(name)
        assert type(value) is list, f"{name} is {value!r}"
        return value

    @property
    def node_id(self) -> builtins.int:
        """`node.id`, or `broker.id` where only the older name is set."""
        older = self.value("broker.id")
        if type(older) is int and older >= 0 and "node.id" not in self.static:
            return older
        return self.int("node.id")

    @property
    def data_dir(self) -> str:
        """The one directory of the data."""
        directories = self.list("log.dirs" if self.value("log.dirs") else "log.dir")
        return directories[0]

    def with_overrides(self, dynamic_default: Mapping[str, str], dynamic_broker: Mapping[str, str]) -> BrokerConfig:
        """The same broker with other dynamic settings; stored ones that are bad are left out and noted."""
        notes: builtins.list[str] = []
        return BrokerConfig(
            self.static.values(),
            dynamic_default=_valid(dynamic_default, notes),
            dynamic_broker=_valid(dynamic_broker, notes),
            initial=self.initial,
            notes=notes,
        )

    def topic_value(self, name: str, overrides: Mapping[str, str]) -> Value:
        """A topic's setting: its own, or the broker's default for it."""
        if (text := overrides.get(name)) is not None:
            return TOPIC_KEYS[name].parse(text)
        for synonym, factor in TOPIC_SYNONYMS.get(name, ()):
            value = self.value(synonym)
            if value is not None:
                return _scaled(name, value, factor)
        default = TOPIC_KEYS[name].default
        assert default is not None
        return TOPIC_KEYS[name].parse(default)


def parse_setting(setting: Setting) -> Value:
    """The value of a setting of brokers; ConfigError for an unknown name or a bad value."""
    key: ConfigKey | None = BROKER_KEYS.get(setting.name)
    if key is not None:
        return key.parse(setting.value, setting.source)
    config_type = no_effect.type_of(setting.name)
    if config_type is None:
        raise ConfigError(unknown_setting(setting.name, setting.source))
    return parse_checked(setting.name, config_type, None, setting.value, setting.source)


def unknown_setting(name: str, source: str = "") -> str:
    """The line for a name that nobody knows, with the closest one that is known."""
    origin = f" (from {source})" if source else ""
    close = closest_setting(name)
    hint = f' (did you mean "{close}"?)' if close else ""
    return f'unknown setting "{name}"{hint}{origin}'


def closest_setting(name: str, likeness_min: float = 0.8) -> str | None:
    """The known name of brokers that a misspelt one is most like; a likeness of 1 is the same."""
    from difflib import get_close_matches

    found = get_close_matches(name, sorted(BROKER_KEYS.keys() | no_effect.names()), 1, likeness_min)
    return found[0] if found else None


def _valid(overrides: Mapping[str, str], notes: list[str]) -> dict[str, str]:
    kept: dict[str, str] = {}
    for name, value in overrides.items():
        try:
            parse_setting(Setting(name, value, "the cluster's metadata"))
        except ConfigError as error:
            notes.append(f"ignored: {error}")
        else:
            kept[name] = value
    return kept


def _scaled(name: str, value: Value, factor: int) -> Value:
    if name == "retention.ms" and isinstance(value, int) and value < 0:
        return -1
    return value * factor if factor != 1 and isinstance(value, int) else value
