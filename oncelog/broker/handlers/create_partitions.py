"""CreatePartitions (key 37, versions 0-3): give topics more partitions (KIP-195)."""

from __future__ import annotations

from oncelog.broker.admin.topics import placement_start, topic_limits
from oncelog.broker.metadata.plans.topics import MorePartitions, plan_create_partitions
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.requests.timeouts import check_deadline
from oncelog.protocol.chunks import along
from oncelog.protocol.errors import KafkaError
from oncelog.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

CHUNKS = (along("topics", "results"),)


async def handle(request: CreatePartitionsRequest, context: RequestContext) -> CreatePartitionsResponse:
    check_deadline(request.timeout_ms)
    services = context.services
    start = placement_start()
    topics = [
        MorePartitions(
            topic.name,
            topic.count,
            None if topic.assignments is None else [assignment.broker_ids for assignment in topic.assignments],
        )
        for topic in request.topics
    ]
    results = await services.metadata.change(
        lambda image: plan_create_partitions(
            image,
            topics,
            limits=topic_limits(services),
            placement_start=start,
            validate_only=request.validate_only,
        )
    )
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(
                name=result.name, error_code=result.outcome.code, error_message=result.outcome.message
            )
            for result in results
        ]
    )


def error_reply(request: CreatePartitionsRequest, error: KafkaError, _: RequestContext) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
            for topic in request.topics
        ]
    )
