"""Which names a topic may have. They become directories, so nothing else may pass."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from oncelog.broker.metadata.image import metric_name
from oncelog.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from oncelog.broker.metadata.image import MetadataImage

NAME_LENGTH_MAX = 249
# Kafka keeps its metadata in a log of this name, which no client may create.
CLUSTER_METADATA_TOPIC = "__cluster_metadata"
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    if (reason := _reason_illegal(name)) is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")


def is_legal_topic_name(name: str) -> bool:
    return _reason_illegal(name) is None


def check_no_collision(image: MetadataImage, name: str) -> None:
    taken = image.topics_by_metric_name.get(metric_name(name))
    if taken is not None and taken != name:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {taken}")


def _reason_illegal(name: str) -> str | None:
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > NAME_LENGTH_MAX:
        return f"the length of '{name}' is longer than the max allowed length {NAME_LENGTH_MAX}"
    if _LEGAL.fullmatch(name) is None:
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None
