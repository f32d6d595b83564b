"""Where settings come from, the weaker first: defaults, a file, the environment, the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.config import no_effect
from oncelog.broker.config.broker_config import BROKER_KEYS, BrokerConfig, Setting
from oncelog.broker.config.checks import check_broker_config
from oncelog.broker.config.environment import read_environment
from oncelog.broker.config.values import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from _typeshed import StrPath


def load_config(
    *,
    file: StrPath | None = None,
    environment: Mapping[str, str] | None = None,
    options: Iterable[str] = (),
    flags: Iterable[Setting] = (),
) -> BrokerConfig:
    """The settings to start with. `options` are `key=value`, `flags` those of the command line; the later wins.

    ConfigError is one line that names the setting and where it was made.
    """
    found = read_environment(environment or {})
    settings = [
        *(read_file(file) if file is not None else ()),
        *found.settings,
        *(parse_option(option) for option in options),
        *flags,
    ]
    config = BrokerConfig(settings, initial=found.initial, notes=[*_notes(settings), *found.notes])
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


def parse_option(option: str) -> Setting:
    """`key=value` from the command line."""
    name, equals, value = option.partition("=")
    if not equals or not name.strip():
        raise ConfigError(f'bad option "{option}": it must be key=value')
    return Setting(name.strip(), value, f"-o {name.strip()}")


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
