"""One line in the log for each change of the metadata: topics, their partitions, settings, users, features."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from oncelog.broker.config.broker_config import BROKER_KEYS

if TYPE_CHECKING:
    from oncelog.broker.metadata.image import MetadataImage, TopicImage

logger = logging.getLogger(__name__)

_Configs = Mapping[str, str]


def note_changes(old: MetadataImage, new: MetadataImage) -> None:
    if old.topics is not new.topics:
        _note_topics(old, new)
    if old.broker_configs is not new.broker_configs:
        for name in old.broker_configs.keys() | new.broker_configs.keys():
            who = f"broker {name}" if name else "all brokers"
            _note_settings(who, old.broker_configs.get(name, {}), new.broker_configs.get(name, {}))
    if old.group_configs is not new.group_configs:
        for name in old.group_configs.keys() | new.group_configs.keys():
            _note_settings(f"group {name}", old.group_configs.get(name, {}), new.group_configs.get(name, {}))
    if old.client_metrics is not new.client_metrics:
        for name in old.client_metrics.keys() | new.client_metrics.keys():
            who = f"client metrics {name}"
            _note_settings(who, old.client_metrics.get(name, {}), new.client_metrics.get(name, {}))
    if old.users is not new.users:
        _note_users(old, new)
    if old.features is not new.features:
        levels = sorted(new.features.levels.items())
        logger.info("features: %s", ", ".join(f"{name}={level}" for name, level in levels))


def _note_topics(old: MetadataImage, new: MetadataImage) -> None:
    for name, topic in old.topics.items():
        current = new.topics.get(name)
        if current is None or current.id != topic.id:
            logger.info("topic %s is deleted", name)
        elif current is not topic:
            _note_topic(topic, current)
    for name, topic in new.topics.items():
        former = old.topics.get(name)
        if former is None or former.id != topic.id:
            count = len(topic.partitions)
            logger.info("topic %s is created with %d partition%s", name, count, "" if count == 1 else "s")
            _note_settings(f"topic {name}", {}, topic.configs)


def _note_topic(old: TopicImage, new: TopicImage) -> None:
    if len(old.partitions) != len(new.partitions):
        logger.info("topic %s has %d partitions now, %d before", new.name, len(new.partitions), len(old.partitions))
    _note_settings(f"topic {new.name}", old.configs, new.configs)


def _note_users(old: MetadataImage, new: MetadataImage) -> None:
    for name in old.users.keys() | new.users.keys():
        former, current = old.users.get(name, {}), new.users.get(name, {})
        if former is not current:
            mechanisms = ", ".join(mechanism.sasl_name for mechanism in current)
            logger.info("user %r: SCRAM credentials for %s", name, mechanisms or "no mechanism")


def _note_settings(who: str, old: _Configs, new: _Configs) -> None:
    changed = [
        f"{name}={shown(name, new[name])}" if name in new else f"{name} back to its default"
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]
    if changed:
        logger.info("settings of %s: %s", who, ", ".join(changed))


def shown(name: str, value: str) -> str:
    """The value of a setting, unless it is a secret."""
    key = BROKER_KEYS.get(name)
    return "(hidden)" if (key is not None and key.sensitive) or "password" in name else value
