"""CreateTopics (key 19, versions 2-7): create topics, or only check whether they could be created."""

from __future__ import annotations

from oncelog.broker.admin.topics import create_topics
from oncelog.broker.config.describe import describe_topic
from oncelog.broker.metadata.plans.topics import CreatedTopic, NewTopic
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.requests.timeouts import check_deadline
from oncelog.protocol.chunks import along
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.create_topics import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

CHUNKS = (along("topics"),)


async def handle(request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse:
    check_deadline(request.timeout_ms)
    topics = [
        NewTopic(
            topic.name,
            topic.num_partitions,
            topic.replication_factor,
            [(assignment.partition_index, assignment.broker_ids) for assignment in topic.assignments],
            [(config.name, config.value) for config in topic.configs],
        )
        for topic in request.topics
    ]
    results = await create_topics(context.services, topics, validate_only=request.validate_only)
    return CreateTopicsResponse(topics=[_answer(result, context) for result in results])


def error_reply(request: CreateTopicsRequest, error: KafkaError, _: RequestContext) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
            for topic in request.topics
        ]
    )


def _answer(result: CreatedTopic, context: RequestContext) -> CreatableTopicResult:
    if result.outcome.code != ErrorCode.NONE:
        return CreatableTopicResult(
            name=result.name, error_code=result.outcome.code, error_message=result.outcome.message
        )
    return CreatableTopicResult(
        name=result.name,
        topic_id=result.topic_id,
        error_message=None,
        num_partitions=result.partition_count,
        replication_factor=result.replication_factor,
        configs=[
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.sensitive,
            )
            for entry in describe_topic(context.services.config, result.configs)
        ],
    )
