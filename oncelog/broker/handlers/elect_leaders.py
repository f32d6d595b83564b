"""ElectLeaders (key 43, versions 0-2): make preferred or unclean replicas the leaders (KIP-183, KIP-460).

On a single node every partition is led by its only replica, so no election is ever needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.requests.context import RequestContext
from oncelog.broker.requests.timeouts import check_deadline
from oncelog.protocol.chunks import along
from oncelog.protocol.errors import MESSAGE_LENGTH_MAX, ErrorCode, KafkaError
from oncelog.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from oncelog.broker.metadata.image import MetadataImage

_ELECTION_TYPES = (0, 1)

CHUNKS = (along("topic_partitions.partitions", "replica_election_results.partition_result"),)


def handle(request: ElectLeadersRequest, context: RequestContext) -> ElectLeadersResponse:
    if request.election_type not in _ELECTION_TYPES:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    check_deadline(request.timeout_ms)
    image = context.services.metadata.image
    if request.topic_partitions is None:
        # Asked for all partitions, Kafka mentions only those whose leader it changed, though all topics.
        return ElectLeadersResponse(
            replica_election_results=[ReplicaElectionResult(topic=name) for name in image.topics]
        )
    return ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic, partition_result=[_elect(image, topic.topic, index) for index in topic.partitions]
            )
            for topic in request.topic_partitions
        ]
    )


def error_reply(request: ElectLeadersRequest, error: KafkaError, _: RequestContext) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=error.code,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    PartitionResult(partition_id=index, error_code=error.code, error_message=error.message)
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )


def _elect(image: MetadataImage, name: str, index: int) -> PartitionResult:
    topic = image.topic(name)
    if topic is None or not 0 <= index < len(topic.partitions):
        message = f"No such topic as {name}" if topic is None else f"No such partition as {name}-{index}"
        return PartitionResult(
            partition_id=index,
            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            error_message=message[:MESSAGE_LENGTH_MAX],
        )
    return PartitionResult(
        partition_id=index,
        error_code=ErrorCode.ELECTION_NOT_NEEDED,
        error_message="Leader election not needed for topic partition.",
    )
