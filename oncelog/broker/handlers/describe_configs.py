"""DescribeConfigs (key 32, versions 1-4): settings of topics, brokers, groups and loggers, with sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.admin.configs import BROKER_LOGGER, CLIENT_METRICS, check_this_broker
from oncelog.broker.admin.loggers import logger_levels
from oncelog.broker.config.describe import (
    DYNAMIC_BROKER_LOGGER,
    ConfigEntry,
    describe_broker,
    describe_cluster_default,
    describe_group,
    describe_topic,
)
from oncelog.broker.config.values import STRING
from oncelog.broker.metadata.plans.configs import ResourceType
from oncelog.broker.metadata.topic_names import check_topic_name
from oncelog.protocol.chunks import along
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from oncelog.broker.requests.context import RequestContext
    from oncelog.broker.requests.services import Services


KNOWN_TYPES = frozenset((*ResourceType, BROKER_LOGGER, CLIENT_METRICS))

CHUNKS = (along("resources", "results"),)


def handle(request: DescribeConfigsRequest, context: RequestContext) -> DescribeConfigsResponse:
    for resource in request.resources:
        if resource.resource_type not in KNOWN_TYPES:
            # The whole request is refused: what it asks for may stand together in a later protocol.
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"unknown resource type {resource.resource_type}")
    return DescribeConfigsResponse(
        results=[_describe(resource, request, context.services) for resource in request.resources]
    )


def error_reply(request: DescribeConfigsRequest, error: KafkaError, _: RequestContext) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(results=[_refused(resource, error) for resource in request.resources])


def _describe(
    resource: DescribeConfigsResource, request: DescribeConfigsRequest, services: Services
) -> DescribeConfigsResult:
    try:
        entries = _entries(resource.resource_type, resource.resource_name, services)
    except KafkaError as error:
        return _refused(resource, error)
    # An empty list of names means all of them, as a missing one does.
    wanted = set(resource.configuration_keys or ())
    return DescribeConfigsResult(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[_answer(entry, request) for entry in entries if not wanted or entry.name in wanted],
    )


def _entries(resource_type: int, name: str, services: Services) -> Iterable[ConfigEntry]:
    if resource_type == ResourceType.TOPIC:
        check_topic_name(name)
        topic = services.metadata.image.topic(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
        return describe_topic(services.config, topic.configs)
    if resource_type == ResourceType.BROKER:
        if not name:
            return describe_cluster_default(services.config)
        check_this_broker(name, services, or_else=" or empty string,")
        return describe_broker(services.config)
    if resource_type == ResourceType.GROUP:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        return describe_group(services.config, services.metadata.image.group_configs.get(name, {}))
    if resource_type == BROKER_LOGGER:
        check_this_broker(name, services)
        return _logger_entries()
    # Clients send no metrics here, thus no subscription has settings.
    return ()


def _logger_entries() -> Iterable[ConfigEntry]:
    for name, level in logger_levels().items():
        yield ConfigEntry(name, level, STRING, DYNAMIC_BROKER_LOGGER, False, False, (), "The level of a logger.")


def _answer(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in (entry.synonyms if request.include_synonyms else ())
        ],
        config_type=entry.type,
        documentation=entry.documentation if request.include_documentation else None,
    )


def _refused(resource: DescribeConfigsResource, error: KafkaError) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=error.code,
        error_message=error.message or None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
