"""Every setting of our tables is read by some part of the broker, or its user is told that it has no effect."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import oncelog.broker
from oncelog.broker.config import BROKER_KEYS, TOPIC_KEYS
from oncelog.broker.config.describe import describe_broker
from oncelog.broker.config.group_keys import GROUP_KEYS, broker_bounds
from oncelog.broker.config.load import load_config
from oncelog.broker.config.no_effect import WITHOUT_EFFECT
from oncelog.broker.config.topic_keys import TOPIC_SYNONYMS

PACKAGE = Path(oncelog.broker.__file__).parent
READERS = ("broker_config.py", "listeners.py", "topic_log_config.py")
"""The modules of config/ that use settings; the others declare, check or describe them."""
GETTER = re.compile(r"\b(?:int|bool|float|text|list|value|topic_value)\(\s*\"([a-z0-9.]+)\"")
NAME = re.compile(r"\"([a-z0-9.]+)\"")
READ_BY_CHECKS = {"max.connections.per.ip.overrides"}
"""Parsed where it is checked, by a function that the broker calls for the table."""


def names_read() -> set[str]:
    """The names of settings that some code asks for."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        if path.parent.name != "config":
            found.update(GETTER.findall(path.read_text()))
        elif path.name in READERS:
            found.update(NAME.findall(path.read_text()))
    return found


def test_the_set_is_exact() -> None:
    read = names_read()
    assert {"num.partitions", "segment.bytes", "min.insync.replicas"} <= read
    by_topics = {synonym for name in TOPIC_KEYS.keys() & read for synonym, _ in TOPIC_SYNONYMS.get(name, ())}
    by_groups = {bound for name in GROUP_KEYS for bound in broker_bounds(name)}
    effective = read | by_topics | by_groups | READ_BY_CHECKS
    assert set(WITHOUT_EFFECT) == BROKER_KEYS.keys() - effective


@pytest.mark.parametrize("name", sorted(WITHOUT_EFFECT))
def test_setting_one_gives_a_note(name: str) -> None:
    default = BROKER_KEYS[name].default
    config = load_config(options=[f"{name}={'1' if default is None else default}"])
    assert config.notes == (f"{name} has no effect in this version",)


def test_describe_configs_says_so_as_well() -> None:
    documentation = {entry.name: entry.documentation for entry in describe_broker(load_config())}
    assert all(documentation[name].endswith(" It has no effect in this version.") for name in WITHOUT_EFFECT)
    assert "no effect" not in documentation["num.partitions"]
