"""DescribeConfigs (key 32, versions 1-4): settings of topics, brokers, groups, client metrics, loggers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.admin.configs import BROKER_LOGGER, check_this_broker
from oncelog.broker.admin.loggers import logger_levels
from oncelog.broker.config.describe import (
    DYNAMIC_BROKER_LOGGER,
    ConfigEntry,
    describe_broker,
    describe_client_metrics,
    describe_cluster_default,
    describe_group,
    describe_topic,
)
from oncelog.broker.config.values import STRING
from oncelog.broker.metadata.plans.configs import ResourceType
from oncelog.broker.metadata.topic_names import check_topic_name
from oncelog.broker.requests.once import answer_once
from oncelog.named_tuple import NamedTuple
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
    from collections.abc import Hashable, Iterable

    from oncelog.broker.requests.context import RequestContext
    from oncelog.broker.requests.services import Services


KNOWN_TYPES = frozenset((*ResourceType, BROKER_LOGGER))

ANSWER_BYTES_MAX = 24 << 20
"""Many resources have many settings each, and documentation: a request could ask for gigabytes."""


async def handle(request: DescribeConfigsRequest, context: RequestContext) -> DescribeConfigsResponse:
    for resource in request.resources:
        if resource.resource_type not in KNOWN_TYPES:
            # The whole request is refused: what it asks for may stand together in a later protocol.
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"unknown resource type {resource.resource_type}")
    answers = _Answers(request, context.services)
    return DescribeConfigsResponse(results=await answer_once(map(_asked, request.resources), answers.describe, context))


def error_reply(request: DescribeConfigsRequest, error: KafkaError, _: RequestContext) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(results=[_refused(resource, error) for resource in request.resources])


class _Asked(NamedTuple):
    resource_type: int
    resource_name: str
    keys: frozenset[str]
    """An empty list of keys means all of them, as a missing one does."""


def _asked(resource: DescribeConfigsResource) -> _Asked:
    return _Asked(resource.resource_type, resource.resource_name, frozenset(resource.configuration_keys or ()))


class _Described(NamedTuple):
    configs: list[DescribeConfigsResourceResult]
    size_bytes: int


class _Answers:
    """To one request. Topics and groups with the same settings share what is told of them."""

    def __init__(self, request: DescribeConfigsRequest, services: Services) -> None:
        self._request = request
        self._services = services
        self._described: dict[Hashable, _Described] = {}
        self._size_bytes = 0

    async def describe(self, asked: _Asked, _: RequestContext) -> DescribeConfigsResult:
        try:
            described = self._settings(asked)
            if self._size_bytes + described.size_bytes > ANSWER_BYTES_MAX:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"the settings of all resources take more than {ANSWER_BYTES_MAX} bytes; describe fewer at once",
                )
        except KafkaError as error:
            return _refused(asked, error)
        self._size_bytes += described.size_bytes
        return DescribeConfigsResult(
            resource_type=asked.resource_type, resource_name=asked.resource_name, configs=described.configs
        )

    def _settings(self, asked: _Asked) -> _Described:
        entries = _entries(asked.resource_type, asked.resource_name, self._services)
        same = asked.resource_type, asked.keys, _overrides(asked, self._services)
        described = self._described.get(same)
        if described is None:
            configs = [_answer(entry, self._request) for entry in entries if not asked.keys or entry.name in asked.keys]
            described = self._described[same] = _Described(configs, sum(map(_size_bytes, configs)))
        return described


def _overrides(asked: _Asked, services: Services) -> Hashable:
    """What tells the answer from those about other resources of the type."""
    image = services.metadata.image
    if asked.resource_type == ResourceType.TOPIC:
        return frozenset(image.topics[asked.resource_name].configs.items())
    if asked.resource_type == ResourceType.GROUP:
        return frozenset(image.group_configs.get(asked.resource_name, {}).items())
    return asked.resource_name


def _size_bytes(config: DescribeConfigsResourceResult) -> int:
    """About."""
    texts = [config.name, config.value, config.documentation]
    for synonym in config.synonyms:
        texts += [synonym.name, synonym.value]
    return sum(4 + len(text or "") for text in texts)


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
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
    return describe_client_metrics(services.metadata.image.client_metrics.get(name, {}))


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


def _refused(resource: DescribeConfigsResource | _Asked, error: KafkaError) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=error.code,
        error_message=error.message or None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
