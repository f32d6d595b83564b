"""Settings from environment variables, as the images of Kafka take them.

Names follow apache/kafka's image: after the prefix, `_` stands for a dot, `__` for an underscore, `___` for a dash, and
case does not count. `KAFKA_CFG_`, the prefix of bitnami's image, wins over `KAFKA_`, and `ONCELOG_` over both. What the
images' start scripts do with their variables is done here:

- `KAFKA_ADVERTISED_LISTENERS` without `KAFKA_LISTENERS`: the broker listens on the same ports, on every interface.
- `KAFKA_ADVERTISED_HOST_NAME` and `KAFKA_ADVERTISED_PORT`, of Kafka before 3.0: the same for one listener.
- `CLUSTER_ID`, or bitnami's `KAFKA_KRAFT_CLUSTER_ID`, is the id of a new cluster.
- `KAFKA_CREATE_TOPICS=name:partitions:replicas[:cleanup.policy],...` creates topics that are missing. Each character of
  `KAFKA_CREATE_TOPICS_SEPARATOR` stands between two topics in place of the comma.

A stranger with the prefix `KAFKA_`, such as KAFKA_HOME or what Kubernetes sets for a service named kafka, is nobody's
mistake and is left alone, unless it looks like a misspelt setting.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from oncelog.broker.config import no_effect
from oncelog.broker.config.broker_config import (
    BROKER_KEYS,
    InitialState,
    InitialTopic,
    Setting,
    closest_setting,
)
from oncelog.broker.config.values import ConfigError
from oncelog.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_KAFKA_PREFIX: Final = "KAFKA_"
_BITNAMI_PREFIX: Final = "KAFKA_CFG_"
_ONCELOG_PREFIX: Final = "ONCELOG_"
_PREFIXES = (_KAFKA_PREFIX, _BITNAMI_PREFIX, _ONCELOG_PREFIX)

_CLUSTER_IDS: Final = ("ONCELOG_CLUSTER_ID", "CLUSTER_ID", "KAFKA_CLUSTER_ID", "KAFKA_KRAFT_CLUSTER_ID")
_CLUSTER_ID = re.compile(r"[\w.~+/=:-]{1,255}", re.ASCII)
_CREATE_TOPICS = "KAFKA_CREATE_TOPICS"
_CREATE_TOPICS_SEPARATOR = "KAFKA_CREATE_TOPICS_SEPARATOR"
_NEW_TOPIC = re.compile(r"([^:\s]+)(?::([0-9]+)(?::([0-9]+)(?::([a-z,]+))?)?)?")

# For the JVM, its logging or the image, or for our other commands; not for the broker.
_NOT_SETTINGS = frozenset(
    (
        "ADDRESS_FILE",
        "BOOTSTRAP",
        "CLUSTER_ID",
        "CREATE_TOPICS",
        "CREATE_TOPICS_SEPARATOR",
        "DEBUG",
        "GC_LOG_OPTS",
        "HEAP_OPTS",
        "HOME",
        "JVM_PERFORMANCE_OPTS",
        "KRAFT_CLUSTER_ID",
        "OPTS",
        "TOOLS_LOG4J_LOGLEVEL",
        "VERSION",
    )
)
_NOT_SETTINGS_PREFIXES = ("JMX_", "LOG4J_")
_MISSPELT_LIKENESS_MIN = 0.9
_PORT_DEFAULT = "9092"
_ADVERTISED_HOST = re.compile(r"://(\[[^\]]*\]|[^:,]*):")


class Environment(NamedTuple):
    settings: Sequence[Setting]
    """The weaker first."""
    initial: InitialState
    notes: Sequence[str]
    """Lines for the person who starts the broker."""


def read_environment(environment: Mapping[str, str]) -> Environment:
    notes: list[str] = []
    settings = [setting for prefix in _PREFIXES for setting in _settings(environment, prefix, notes)]
    settings = _with_old_advertised_host(settings)
    initial = InitialState(_cluster_id(environment, notes), tuple(_topics(environment)))
    return Environment([*settings, *_derived_listeners(settings)], initial, notes)


def is_for_broker(variable: str) -> bool:
    """Whether a variable may change how a broker starts."""
    return variable.startswith(_PREFIXES) or variable in _CLUSTER_IDS


def setting_name(variable: str) -> str:
    """The setting that a variable, without its prefix, stands for."""
    return variable.lower().replace("_", ".").replace("...", "-").replace("..", "_")


def _is_known(name: str) -> bool:
    return name in BROKER_KEYS or no_effect.type_of(name) is not None


def _settings(environment: Mapping[str, str], prefix: str, notes: list[str]) -> Iterator[Setting]:
    for variable in sorted(environment):
        if not variable.startswith(prefix) or (prefix == _KAFKA_PREFIX and variable.startswith(_BITNAMI_PREFIX)):
            continue
        rest = variable.removeprefix(prefix)
        if rest in _NOT_SETTINGS or rest.startswith(_NOT_SETTINGS_PREFIXES):
            continue
        name = setting_name(rest)
        if prefix != _ONCELOG_PREFIX and _is_stranger(name):
            if prefix == _BITNAMI_PREFIX:
                notes.append(f"{variable} has no effect: there is no setting {name}")
            continue
        yield Setting(name, environment[variable], f"environment {variable}")


def _is_stranger(name: str) -> bool:
    return not _is_known(name) and closest_setting(name, _MISSPELT_LIKENESS_MIN) is None


def _with_old_advertised_host(settings: list[Setting]) -> list[Setting]:
    """wurstmeister's image, and many files that were written for it, know no other way to name an address."""
    named = {setting.name: setting for setting in settings}
    host, port = named.get("advertised.host.name"), named.get("advertised.port")
    if host is None or not host.value.strip() or not {"listeners", "advertised.listeners"}.isdisjoint(named):
        return settings
    address = f"PLAINTEXT://{host.value.strip()}:{_PORT_DEFAULT if port is None else port.value.strip()}"
    others = [setting for setting in settings if setting.name not in ("advertised.host.name", "advertised.port")]
    return [*others, Setting("advertised.listeners", address, host.source)]


def _derived_listeners(settings: Sequence[Setting]) -> Iterator[Setting]:
    named = {setting.name: setting for setting in settings}
    advertised = named.get("advertised.listeners")
    if advertised is not None and advertised.value.strip() and "listeners" not in named:
        yield Setting("listeners", _ADVERTISED_HOST.sub(_every_interface, advertised.value), advertised.source)


def _every_interface(found: re.Match[str]) -> str:
    return "://[::]:" if found[1].startswith("[") else "://0.0.0.0:"


def _cluster_id(environment: Mapping[str, str], notes: list[str]) -> str:
    for variable in _CLUSTER_IDS:
        if value := environment.get(variable, "").strip():
            if _CLUSTER_ID.fullmatch(value):
                return value
            notes.append(f'{variable} has no effect: "{value}" cannot be the id of a cluster')
    return ""


def _topics(environment: Mapping[str, str]) -> Iterator[InitialTopic]:
    separators = re.escape(environment.get(_CREATE_TOPICS_SEPARATOR) or ",")
    for text in filter(None, map(str.strip, re.split(f"[{separators}]", environment.get(_CREATE_TOPICS, "")))):
        found = _NEW_TOPIC.fullmatch(text)
        if found is None:
            raise ConfigError(
                f'bad value for {_CREATE_TOPICS}: "{text}" must be name:partitions:replicas or'
                " name:partitions:replicas:cleanup.policy"
            )
        name, partitions, replicas, policy = found.groups()
        yield InitialTopic(name, int(partitions or 1), int(replicas or 1), policy or "")
