"""AlterPartitionReassignments (key 45, versions 0-1): move replicas between brokers (KIP-455, KIP-860)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.metadata.plans.partitions import check_reassignment
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.requests.timeouts import check_deadline
from oncelog.protocol.chunks import along
from oncelog.protocol.errors import KafkaError
from oncelog.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

if TYPE_CHECKING:
    from oncelog.broker.metadata.image import MetadataImage

CHUNKS = (along("topics.partitions", "responses.partitions"),)


def handle(request: AlterPartitionReassignmentsRequest, context: RequestContext) -> AlterPartitionReassignmentsResponse:
    check_deadline(request.timeout_ms)
    image = context.services.metadata.image
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        # Kafka's message is empty instead of null for a request without topics.
        error_message=None if request.topics else "",
        responses=[
            ReassignableTopicResponse(
                name=topic.name, partitions=[_reassign(image, topic.name, asked) for asked in topic.partitions]
            )
            for topic in request.topics
        ],
    )


def error_reply(
    request: AlterPartitionReassignmentsRequest, error: KafkaError, _: RequestContext
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=error.code,
        error_message=error.message,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[_refused(asked, error) for asked in topic.partitions],
            )
            for topic in request.topics
        ],
    )


def _reassign(image: MetadataImage, topic: str, asked: ReassignablePartition) -> ReassignablePartitionResponse:
    try:
        check_reassignment(image, topic, asked.partition_index, asked.replicas)
    except KafkaError as error:
        return _refused(asked, error)
    return ReassignablePartitionResponse(partition_index=asked.partition_index, error_message=None)


def _refused(asked: ReassignablePartition, error: KafkaError) -> ReassignablePartitionResponse:
    return ReassignablePartitionResponse(
        partition_index=asked.partition_index, error_code=error.code, error_message=error.message
    )
