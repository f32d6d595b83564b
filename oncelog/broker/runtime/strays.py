"""Directories of partitions that no topic has: what a crash left of a topic that was being deleted.

If they stayed, a new topic of the same name could not have its directories. They are renamed to
`topic-N.<token>-stray` and kept, as Apache Kafka does, because they may also come from a mistake of a person.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from oncelog.broker.log.disk import StorageError
from oncelog.broker.metadata.topic_names import CLUSTER_METADATA_TOPIC
from oncelog.broker.runtime.chance import random_uuid

if TYPE_CHECKING:
    from oncelog.broker.log.log_manager import LogManager
    from oncelog.broker.metadata.image import MetadataImage

logger = logging.getLogger(__name__)


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
