"""DescribeProducers (key 61, version 0): the producers that a partition's leader remembers (KIP-664)."""

from __future__ import annotations

from oncelog.broker.metadata.topic_names import check_topic_name
from oncelog.broker.requests.context import Pace, RequestContext
from oncelog.protocol.chunks import along
from oncelog.protocol.errors import KafkaError
from oncelog.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

CHUNKS = (along("topics.partition_indexes", "topics.partitions"),)


async def handle(request: DescribeProducersRequest, context: RequestContext) -> DescribeProducersResponse:
    pace = Pace(context)
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[await _describe(topic.name, index, context, pace) for index in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


def error_reply(request: DescribeProducersRequest, error: KafkaError, _: RequestContext) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(name=topic.name, partitions=[_refused(index, error) for index in topic.partition_indexes])
            for topic in request.topics
        ]
    )


async def _describe(topic: str, index: int, context: RequestContext, pace: Pace) -> PartitionResponse:
    try:
        check_topic_name(topic)
        partition = context.services.partitions.leader(topic, index)
        partition.check_leader()
    except KafkaError as error:
        return _refused(index, error)
    response = PartitionResponse(partition_index=index)
    for entry in partition.log.active_producers():
        response.active_producers.append(
            ProducerState(
                producer_id=entry.producer_id,
                producer_epoch=entry.epoch,
                last_sequence=entry.last_sequence,
                last_timestamp=entry.last_timestamp,
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_start_offset=entry.txn_first_offset,
            )
        )
        if pace.is_over:
            await pace.rest()
    return response


def _refused(index: int, error: KafkaError) -> PartitionResponse:
    return PartitionResponse(partition_index=index, error_code=error.code, error_message=error.message or None)
