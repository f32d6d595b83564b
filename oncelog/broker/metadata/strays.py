"""Directories of partitions that no topic has: what a crash left of a topic that was being deleted.

If they stayed, a new topic of the same name could not have its directories. They are renamed to
`topic-N.<token>-stray` and kept, as Apache Kafka does, because they may also come from a mistake of a person.
What is only named like a partition is reported and stays as it is.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from oncelog.broker.base.ids import random_uuid
from oncelog.broker.log.disk import StorageError
from oncelog.broker.metadata.topic_names import CLUSTER_METADATA_TOPIC

if TYPE_CHECKING:
    from oncelog.broker.log.log_manager import LogManager
    from oncelog.broker.metadata.image import MetadataImage

logger = logging.getLogger(__name__)

_NAMES_SHOWN_MAX = 10


def enumerated(names: list[str]) -> str:
    """For a log line: the names, or the first ones of many."""
    shown = ", ".join(names[:_NAMES_SHOWN_MAX])
    more = len(names) - _NAMES_SHOWN_MAX
    return f"{shown} and {more} more" if more > 0 else shown


def report_ignored(image: MetadataImage, logs: LogManager) -> None:
    """One line for what is named like a partition and is none; a crash leaves empty directories of topics."""
    names = sorted(name for name in logs.ignored if not _has_partition(image, name))
    if names:
        logger.warning("ignored in %s, as no broker wrote it: %s", logs.root, enumerated(names))


def _has_partition(image: MetadataImage, name: str) -> bool:
    topic, _, index = name.rpartition("-")
    found = image.topic(topic)
    return found is not None and int(index) < len(found.partitions)


def set_strays_aside(image: MetadataImage, logs: LogManager) -> None:
    """At the start, after recovery: ids are compared where it has opened the logs, which is after a crash."""
    for topic, index in logs.partitions():
        if topic == CLUSTER_METADATA_TOPIC or not _is_stray(image, logs, topic, index):
            continue
        try:
            path = logs.set_aside(topic, index, token=random_uuid().hex())
        except StorageError as error:
            logger.error("%s", error)
        else:
            logger.warning("%s-%d belongs to no topic; its files are kept in %s", topic, index, path)


def _is_stray(image: MetadataImage, logs: LogManager, topic: str, index: int) -> bool:
    found = image.topic(topic)
    if found is None or index >= len(found.partitions):
        return True
    log = logs.logs.get((topic, index))
    return log is not None and log.topic_id is not None and log.topic_id != found.id
