"""DescribeTopicPartitions (key 75, version 0): topics page by page (KIP-966)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.metadata.topic_names import is_legal_topic_name
from oncelog.broker.requests.authorized_operations import TOPIC_OPERATIONS
from oncelog.broker.requests.context import RequestContext
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

if TYPE_CHECKING:
    from oncelog.broker.metadata.image import MetadataImage, PartitionImage

PARTITIONS_PER_PAGE_MAX = 2000


def handle(request: DescribeTopicPartitionsRequest, context: RequestContext) -> DescribeTopicPartitionsResponse:
    image = context.services.metadata.image
    cursor = request.cursor
    if cursor is not None and cursor.partition_index < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the cursor's partition is below zero")
    names = sorted({topic.name for topic in request.topics} or image.topics)
    if cursor is not None and request.topics and cursor.topic_name not in names:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the cursor's topic is not among those asked for")
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
    left = min(max(request.response_partition_limit, 1), PARTITIONS_PER_PAGE_MAX)
    response = DescribeTopicPartitionsResponse()
    for name in names:
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        if not left:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        answer = _describe(image, name, first, left)
        response.topics.append(answer)
        left -= len(answer.partitions)
        topic = image.topics.get(name)
        if topic is not None and first + len(answer.partitions) < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=first + len(answer.partitions))
            break
    return response


def error_reply(
    request: DescribeTopicPartitionsRequest, error: KafkaError, _: RequestContext
) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(error_code=error.code, name=topic.name) for topic in request.topics
        ]
    )


def _describe(image: MetadataImage, name: str, first: int, limit: int) -> DescribeTopicPartitionsResponseTopic:
    topic = image.topics.get(name)
    if topic is None:
        legal = is_legal_topic_name(name)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if legal else ErrorCode.INVALID_TOPIC_EXCEPTION
        return DescribeTopicPartitionsResponseTopic(
            error_code=unknown, name=name, topic_authorized_operations=TOPIC_OPERATIONS
        )
    return DescribeTopicPartitionsResponseTopic(
        name=name,
        topic_id=topic.id,
        is_internal=topic.internal,
        partitions=[_describe_partition(state) for state in topic.partitions[first : first + limit]],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _describe_partition(state: PartitionImage) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE if state.leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=state.index,
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
        eligible_leader_replicas=[],
        last_known_elr=[],
    )
