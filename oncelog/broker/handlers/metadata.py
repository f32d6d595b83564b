"""Metadata (key 3, versions 0-13): brokers, topics, partitions and their leaders.

Unknown topics are created where the client allows it and `auto.create.topics.enable` is on; the answer then
already has them, so a client need not ask again.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from oncelog.broker.metadata.topic_names import is_legal_topic_name
from oncelog.broker.runtime.authorized_operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from oncelog.broker.runtime.cluster import endpoints
from oncelog.broker.runtime.context import RequestContext
from oncelog.broker.runtime.topics import auto_create_topics
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from oncelog.protocol.primitives import ZERO_UUID

if TYPE_CHECKING:
    from oncelog.broker.metadata.image import MetadataImage, TopicImage

_IDS_SINCE = 12
"""Versions 10 and 11 have the field, but an answer in them could not name a topic that is unknown."""


def handle(request: MetadataRequest, context: RequestContext) -> MetadataResponse | Awaitable[MetadataResponse]:
    image = context.services.metadata.image
    _check_request(request, context.version)
    if _asks_for_all(request, context.version):
        return _respond(request, context, [_describe(topic) for topic in image.topics.values()])
    missing = _missing_names(request, image)
    if missing and _may_create(request, context):
        return _create_and_respond(request, missing, context)
    return _respond(request, context, _look_up(request, image, {}))


def error_reply(request: MetadataRequest, error: KafkaError, _: RequestContext) -> MetadataResponse:
    """The same error for every topic of the request, and nothing else."""
    topics = [
        MetadataResponseTopic(error_code=error.code, name=asked.name or "", topic_id=asked.topic_id)
        for asked in request.topics or ()
    ]
    return MetadataResponse(topics=topics, cluster_id=None, controller_id=-1, error_code=error.code)


def _check_request(request: MetadataRequest, version: int) -> None:
    topics = request.topics or ()
    if version < _IDS_SINCE and any(asked.topic_id != ZERO_UUID for asked in topics):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"topic ids can be asked for since version {_IDS_SINCE}")
    if not _asks_by_id(request) and any(asked.name is None for asked in topics):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a topic has neither a name nor an id")


def _asks_by_id(request: MetadataRequest) -> bool:
    """One id is enough: names beside it are not looked at, as in Kafka."""
    return any(asked.topic_id != ZERO_UUID for asked in request.topics or ())


async def _create_and_respond(
    request: MetadataRequest, missing: list[str], context: RequestContext
) -> MetadataResponse:
    failures = await auto_create_topics(context.services, missing)
    return _respond(request, context, _look_up(request, context.services.metadata.image, failures))


def _asks_for_all(request: MetadataRequest, version: int) -> bool:
    """Version 0 asks for all topics by an empty list, later ones by null."""
    return request.topics is None or (version == 0 and not request.topics)


def _missing_names(request: MetadataRequest, image: MetadataImage) -> list[str]:
    if _asks_by_id(request):
        return []
    wanted = {asked.name for asked in request.topics or () if asked.name}
    return [name for name in sorted(wanted) if name not in image.topics]


def _may_create(request: MetadataRequest, context: RequestContext) -> bool:
    allowed = request.allow_auto_topic_creation or context.version < 4
    return allowed and context.services.config.bool("auto.create.topics.enable")


def _look_up(
    request: MetadataRequest, image: MetadataImage, failures: dict[str, ErrorCode]
) -> list[MetadataResponseTopic]:
    by_id = _asks_by_id(request)
    answers: dict[str | bytes | None, MetadataResponseTopic] = {}
    for asked in request.topics or ():
        key = asked.topic_id if by_id else asked.name
        if key not in answers and key != ZERO_UUID:
            answers[key] = _find(asked, image, failures)
    return list(answers.values())


def _find(asked: MetadataRequestTopic, image: MetadataImage, failures: dict[str, ErrorCode]) -> MetadataResponseTopic:
    if asked.topic_id != ZERO_UUID:
        topic = image.topic_by_id(asked.topic_id)
        if topic is None:
            return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=asked.topic_id)
        return _describe(topic)
    name = asked.name or ""
    topic = image.topics.get(name)
    if topic is not None:
        return _describe(topic)
    legal = is_legal_topic_name(name)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if legal else ErrorCode.INVALID_TOPIC_EXCEPTION
    return MetadataResponseTopic(error_code=failures.get(name, unknown), name=name)


def _describe(topic: TopicImage) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.internal,
        partitions=[
            MetadataResponsePartition(
                error_code=ErrorCode.NONE if state.leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
                partition_index=state.index,
                leader_id=state.leader,
                leader_epoch=state.leader_epoch,
                replica_nodes=list(state.replicas),
                isr_nodes=list(state.isr),
            )
            for state in topic.partitions
        ],
    )


def _respond(
    request: MetadataRequest, context: RequestContext, topics: list[MetadataResponseTopic]
) -> MetadataResponse:
    image = context.services.metadata.image
    brokers = [
        MetadataResponseBroker(node_id=broker.id, host=host, port=port, rack=broker.rack)
        for broker, host, port in endpoints(image, context)
    ]
    response = MetadataResponse(
        brokers=brokers, cluster_id=image.cluster_id, controller_id=image.controller_id, topics=topics
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    if request.include_topic_authorized_operations:
        for topic in topics:
            if topic.error_code == ErrorCode.NONE:
                topic.topic_authorized_operations = TOPIC_OPERATIONS
    return response
