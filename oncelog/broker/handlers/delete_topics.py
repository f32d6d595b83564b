"""DeleteTopics (key 20, versions 1-6): delete topics by name or by id."""

from __future__ import annotations

from oncelog.broker.metadata.plans.topics import TopicSelector, plan_delete_topics
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.requests.timeouts import check_deadline
from oncelog.protocol.chunks import along
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

CHUNKS = (
    along("topics", "responses"),
    along("topic_names", "responses"),
)


async def handle(request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse:
    services = context.services
    if not services.config.bool("delete.topic.enable"):
        code = ErrorCode.TOPIC_DELETION_DISABLED if context.version >= 3 else ErrorCode.INVALID_REQUEST
        raise KafkaError(code, "delete.topic.enable is false")
    check_deadline(request.timeout_ms)
    selectors = _selectors(request)
    results = await services.metadata.change(lambda image: plan_delete_topics(image, selectors))
    await services.partitions.deletions_done()
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(
                name=result.name,
                topic_id=result.topic_id,
                error_code=result.outcome.code,
                error_message=result.outcome.message,
            )
            for result in results
        ]
    )


def error_reply(request: DeleteTopicsRequest, error: KafkaError, _: RequestContext) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(
                name=selector.name,
                topic_id=selector.topic_id,
                error_code=error.code,
                error_message=error.message,
            )
            for selector in _selectors(request)
        ]
    )


def _selectors(request: DeleteTopicsRequest) -> list[TopicSelector]:
    by_state = [TopicSelector(topic.name, topic.topic_id) for topic in request.topics]
    return by_state + [TopicSelector(name) for name in request.topic_names]
