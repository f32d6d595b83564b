"""How the APIs of share groups, streams groups and voters refuse, as those of a Kafka with the feature off do.

They are advertised all the same, since Kafka 4.x always advertises them, and tools tell a broker's version by that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.primitives import ZERO_UUID

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_UNSUPPORTED = "The version of API is not supported: "

P = TypeVar("P")
R = TypeVar("R")


class _Partition(Protocol):
    partition: int


class _Topic(Protocol):
    topic_id: bytes

    @property
    def partitions(self) -> Sequence[_Partition]: ...


class _StateRequest(Protocol):
    group_id: str

    @property
    def topics(self) -> Sequence[_Topic]: ...


class _VoterRequest(Protocol):
    cluster_id: str | None
    voter_id: int
    voter_directory_id: bytes


def no_share_groups() -> KafkaError:
    return KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{_UNSUPPORTED}this broker has no share groups (KIP-932)")


def no_streams_groups() -> KafkaError:
    return KafkaError(
        ErrorCode.UNSUPPORTED_VERSION,
        f"{_UNSUPPORTED}this broker has no streams groups (KIP-1071); set group.protocol=classic",
    )


def not_share_coordinator(what: str) -> KafkaError:
    return KafkaError(ErrorCode.NOT_COORDINATOR, f"Unable to {what}: This is not the correct coordinator.")


def refused_partitions(
    request: _StateRequest, error: KafkaError, result: Callable[..., R], partition_result: Callable[..., P]
) -> list[R]:
    """The refusal of each partition, with the classes of one of the five APIs of share state.

    As in Kafka, a request without a group, or with a topic without partitions, is answered with nothing.
    """
    if not request.group_id or not all(topic.partitions for topic in request.topics):
        return []
    topics: dict[bytes, dict[int, P]] = {}
    for topic in request.topics:
        refused = topics.setdefault(topic.topic_id, {})
        for each in topic.partitions:
            refused[each.partition] = partition_result(
                partition=each.partition, error_code=error.code, error_message=error.message
            )
    return [result(topic_id=topic_id, partitions=list(refused.values())) for topic_id, refused in topics.items()]


def voters_are_fixed(verb: str, request: _VoterRequest, cluster_id: str) -> KafkaError:
    """What is wrong with a request to add or remove a voter: at the least, that no voter can be."""
    if request.cluster_id not in (None, cluster_id):
        return KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f'The given id "{request.cluster_id}" doesn\'t match the cluster id "{cluster_id}"',
        )
    if request.voter_id < 0 or request.voter_directory_id == ZERO_UUID:
        return KafkaError(ErrorCode.INVALID_REQUEST, f"{verb.capitalize()} voter request didn't include a valid voter")
    return KafkaError(
        ErrorCode.UNSUPPORTED_VERSION,
        f"Cluster doesn't support {verb.rstrip('e')}ing voter because the kraft.version feature is 0",
    )
