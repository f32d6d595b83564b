"""The levels of the broker's loggers, which clients may see, and change until the next restart (KIP-412)."""

from __future__ import annotations

import logging
from typing import Final

from oncelog.protocol.errors import ErrorCode, KafkaError

ROOT: Final = "root"
_PACKAGE = "oncelog"
_LEVELS: Final = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
_NAMES: Final = {
    logging.DEBUG: "DEBUG",
    logging.INFO: "INFO",
    logging.WARNING: "WARN",
    logging.ERROR: "ERROR",
    logging.CRITICAL: "FATAL",
}


def logger_levels() -> dict[str, str]:
    """Each logger of the broker with the level in force, the root first."""
    names = sorted(name for name in logging.root.manager.loggerDict if _is_ours(name))
    levels = {ROOT: logging.root.getEffectiveLevel()}
    levels.update((name, logging.getLogger(name).getEffectiveLevel()) for name in names)
    return {name: _NAMES.get(level, str(level)) for name, level in levels.items()}


def check_logger_level(name: str, level: str) -> None:
    """Raises INVALID_CONFIG for a logger that is not the broker's or a level that does not exist."""
    if name not in logger_levels():
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"there is no logger {name}")
    if level.strip().upper() not in _LEVELS:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f'bad level for {name}: "{level}" must be one of {", ".join(_LEVELS)}'
        )


def check_logger_reset(name: str) -> None:
    """Raises where a logger has no parent whose level it could take."""
    if name == ROOT:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the level of the root logger cannot be removed")
    if name not in logger_levels():
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"there is no logger {name}")


def set_logger_level(name: str, level: str | None) -> None:
    """Sets a checked level; None takes that of the parent."""
    number = logging.NOTSET if level is None else _LEVELS[level.strip().upper()]
    logging.getLogger(None if name == ROOT else name).setLevel(number)


def _is_ours(name: str) -> bool:
    return name == _PACKAGE or name.startswith(f"{_PACKAGE}.")
