"""Decisions about the replicas of partitions that exist."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.metadata.plans.topics import check_assignment
from oncelog.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oncelog.broker.metadata.image import MetadataImage


def check_reassignment(image: MetadataImage, name: str, index: int, replicas: Sequence[int] | None) -> None:
    """KafkaError unless the partition has these replicas already; None cancels a move. No replica is ever moved."""
    topic = image.topic(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
    if not 0 <= index < len(topic.partitions):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{index}.")
    if replicas is None:
        raise KafkaError(
            ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, f"The replicas of partition {name}:{index} are not being moved."
        )
    check_assignment(image, replicas)
    if tuple(replicas) != topic.partitions[index].replicas:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "This broker cannot move replicas to other brokers.")
