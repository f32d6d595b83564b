"""Where settings come from, the weaker first: defaults, a file, the environment, the command line.

The environment is read as apache/kafka's image reads it: after the prefix, `_` stands for a dot, `__` for an
underscore, `___` for a dash, and case does not count. `ONCELOG_` wins over `KAFKA_`. A stranger with
the prefix `KAFKA_`, such as KAFKA_HOME or what Kubernetes sets for a service named kafka, is nobody's mistake
and is left alone, unless it looks like a misspelt setting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from oncelog.broker.config import no_effect
from oncelog.broker.config.broker_config import (
    BROKER_KEYS,
    BrokerConfig,
    Setting,
    closest_setting,
)
from oncelog.broker.config.checks import check_broker_config
from oncelog.broker.config.values import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from _typeshed import StrPath

KAFKA_PREFIX: Final = "KAFKA_"
ONCELOG_PREFIX: Final = "ONCELOG_"

# For the JVM, its logging or the image, or for our other commands; not for the broker.
_NOT_SETTINGS = frozenset(
    (
        "BOOTSTRAP",
        "CLUSTER_ID",
        "DEBUG",
        "GC_LOG_OPTS",
        "HEAP_OPTS",
        "HOME",
        "JVM_PERFORMANCE_OPTS",
        "OPTS",
        "TOOLS_LOG4J_LOGLEVEL",
        "VERSION",
    )
)
_MISSPELT_LIKENESS_MIN = 0.9
_NOT_SETTINGS_PREFIXES = ("JMX_", "LOG4J_")


def load_config(
    *,
    file: StrPath | None = None,
    environment: Mapping[str, str] | None = None,
    options: Iterable[str] = (),
    flags: Iterable[Setting] = (),
) -> BrokerConfig:
    """The settings to start with. `options` are `key=value`, `flags` those of the command line; both win.

    ConfigError is one line that names the setting and where it was made.
    """
    settings = [
        *(read_file(file) if file is not None else ()),
        *environment_settings(environment or {}),
        *(parse_option(option) for option in options),
        *flags,
    ]
    config = BrokerConfig(settings, notes=_notes(settings))
    check_broker_config(config)
    return config


def read_file(path: StrPath) -> list[Setting]:
    """The settings of a Java properties file."""
    import javaproperties

    try:
        with open(path, encoding="utf-8") as stream:
            pairs: dict[str, str] = javaproperties.load(stream)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"cannot read {path}: {error}") from None
    return [Setting(name, value, str(path)) for name, value in pairs.items()]


def environment_settings(environment: Mapping[str, str]) -> Iterator[Setting]:
    """The settings of an environment, KAFKA_ before ONCELOG_."""
    for prefix in (KAFKA_PREFIX, ONCELOG_PREFIX):
        for variable in sorted(environment):
            if not variable.startswith(prefix) or not _is_meant(variable.removeprefix(prefix)):
                continue
            name = setting_name(variable.removeprefix(prefix))
            if prefix == KAFKA_PREFIX and _is_stranger(name):
                continue
            yield Setting(name, environment[variable], f"environment {variable}")


def setting_name(variable: str) -> str:
    """The setting that a variable, without its prefix, stands for."""
    return variable.lower().replace("_", ".").replace("...", "-").replace("..", "_")


def parse_option(option: str) -> Setting:
    """`key=value` from the command line."""
    name, equals, value = option.partition("=")
    if not equals or not name.strip():
        raise ConfigError(f'bad option "{option}": it must be key=value')
    return Setting(name.strip(), value, f"-o {name.strip()}")


def _is_meant(variable: str) -> bool:
    return variable not in _NOT_SETTINGS and not variable.startswith(_NOT_SETTINGS_PREFIXES)


def _is_known(name: str) -> bool:
    return name in BROKER_KEYS or no_effect.type_of(name) is not None


def _is_stranger(name: str) -> bool:
    return not _is_known(name) and closest_setting(name, _MISSPELT_LIKENESS_MIN) is None


def _has_no_effect(name: str) -> bool:
    if name in BROKER_KEYS:
        return name in no_effect.WITHOUT_EFFECT
    return no_effect.type_of(name) is not None


def _notes(settings: Iterable[Setting]) -> list[str]:
    names = {setting.name: None for setting in settings}
    idle = [name for name in names if _has_no_effect(name)]
    kraft = [name for name in idle if no_effect.is_kraft(name)]
    notes = [no_effect.note(name) for name in idle if name not in kraft]
    if kraft:
        notes.append(f"{', '.join(kraft)}: not needed, Oncelog has no separate controllers")
    return notes
