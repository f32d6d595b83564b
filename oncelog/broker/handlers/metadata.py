"""Metadata (key 3, versions 0-13): brokers, topics, partitions and their leaders.

Unknown topics are created where the client allows it and `auto.create.topics.enable` is on; the answer then
already has them, so a client need not ask again.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from oncelog.broker.admin.topics import AUTO_CREATED_PER_REQUEST_MAX, auto_create_topics
from oncelog.broker.metadata.topic_names import is_legal_topic_name
from oncelog.broker.requests.authorized_operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from oncelog.broker.requests.context import Pace, RequestContext
from oncelog.broker.requests.endpoints import endpoints
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


async def handle(request: MetadataRequest, context: RequestContext) -> MetadataResponse:
    services = context.services
    pace = Pace(context)
    if _asks_for_all(request, context.version):
        found = [await _describe(topic, pace) for topic in services.metadata.image.topics.values()]
        return _respond(request, context, found)
    by_id = await _check_topics(request, context.version, pace)
    failures: dict[str, ErrorCode] = {}
    if not by_id and _may_create(request, context):
        missing = await _missing_names(request, services.metadata.image, pace)
        failures = await auto_create_topics(services, missing) if missing else {}
    found = await _look_up(request, services.metadata.image, by_id, failures, pace)
    return _respond(request, context, found)


def error_reply(request: MetadataRequest, error: KafkaError, _: RequestContext) -> MetadataResponse:
    """The same error for every topic of the request, and nothing else."""
    topics = [
        MetadataResponseTopic(error_code=error.code, name=asked.name or "", topic_id=asked.topic_id)
        for asked in request.topics or ()
    ]
    return MetadataResponse(topics=topics, cluster_id=None, controller_id=-1, error_code=error.code)


async def _check_topics(request: MetadataRequest, version: int, pace: Pace) -> bool:
    """Whether the client asks by id. One id is enough: names beside it are not looked at, as in Kafka."""
    by_id = lacks_name = False
    for asked in request.topics or ():
        by_id = by_id or asked.topic_id != ZERO_UUID
        lacks_name = lacks_name or asked.name is None
        if pace.is_over:
            await pace.rest()
    if by_id and version < _IDS_SINCE:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"topic ids can be asked for since version {_IDS_SINCE}")
    if lacks_name and not by_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a topic has neither a name nor an id")
    return by_id


def _asks_for_all(request: MetadataRequest, version: int) -> bool:
    """Version 0 asks for all topics by an empty list, later ones by null."""
    return request.topics is None or (version == 0 and not request.topics)


async def _missing_names(request: MetadataRequest, image: MetadataImage, pace: Pace) -> list[str]:
    """The first names of topics that do not exist, as many as one request may create."""
    missing: set[str] = set()
    for asked in request.topics or ():
        if asked.name and asked.name not in image.topics:
            missing.add(asked.name)
        if pace.is_over:
            await pace.rest()
    return heapq.nsmallest(AUTO_CREATED_PER_REQUEST_MAX, missing)


def _may_create(request: MetadataRequest, context: RequestContext) -> bool:
    allowed = request.allow_auto_topic_creation or context.version < 4
    return allowed and context.services.config.bool("auto.create.topics.enable")


async def _look_up(
    request: MetadataRequest, image: MetadataImage, by_id: bool, failures: dict[str, ErrorCode], pace: Pace
) -> list[MetadataResponseTopic]:
    answers: dict[str | bytes | None, MetadataResponseTopic] = {}
    for asked in request.topics or ():
        key = asked.topic_id if by_id else asked.name
        if key not in answers and key != ZERO_UUID:
            answers[key] = await _find(asked, image, failures, pace)
        if pace.is_over:
            await pace.rest()
    return list(answers.values())


async def _find(
    asked: MetadataRequestTopic, image: MetadataImage, failures: dict[str, ErrorCode], pace: Pace
) -> MetadataResponseTopic:
    if asked.topic_id != ZERO_UUID:
        topic = image.topic_by_id(asked.topic_id)
        if topic is None:
            return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=asked.topic_id)
        return await _describe(topic, pace)
    name = asked.name or ""
    topic = image.topics.get(name)
    if topic is not None:
        return await _describe(topic, pace)
    legal = is_legal_topic_name(name)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if legal else ErrorCode.INVALID_TOPIC_EXCEPTION
    return MetadataResponseTopic(error_code=failures.get(name, unknown), name=name)


async def _describe(topic: TopicImage, pace: Pace) -> MetadataResponseTopic:
    response = MetadataResponseTopic(name=topic.name, topic_id=topic.id, is_internal=topic.internal)
    for state in topic.partitions:
        response.partitions.append(
            MetadataResponsePartition(
                error_code=ErrorCode.NONE if state.leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
                partition_index=state.index,
                leader_id=state.leader,
                leader_epoch=state.leader_epoch,
                replica_nodes=list(state.replicas),
                isr_nodes=list(state.isr),
            )
        )
        if pace.is_over:
            await pace.rest()
    return response


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
