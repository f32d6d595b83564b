"""Changes to topics, as handlers and the broker itself ask for them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from oncelog.broker.base.ids import random_number, random_uuid
from oncelog.broker.config.checks import check_topic_configs
from oncelog.broker.metadata.plans.plan import Outcome
from oncelog.broker.metadata.plans.topics import (
    CreatedTopic,
    NewTopic,
    TopicLimits,
    plan_create_topics,
)
from oncelog.broker.metadata.store import MetadataStoreError
from oncelog.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from oncelog.broker.config.broker_config import InitialTopic
    from oncelog.broker.requests.services import Services

logger = logging.getLogger(__name__)

AUTO_CREATED_PER_REQUEST_MAX = 100
"""A request that names more unknown topics than this is more likely a mistake than a wish."""


def topic_limits(services: Services) -> TopicLimits:
    return TopicLimits(
        default_partition_count=services.config.int("num.partitions"),
        default_replication_factor=services.config.int("default.replication.factor"),
    )


def placement_start() -> int:
    """Where to begin handing out replicas, so that the first broker does not get the first of everything."""
    return random_number(bits=16)


def replicated(services: Services, topic: NewTopic, replication_factor: int) -> NewTopic:
    """As often as wished, or as there are brokers: a cluster that starts is not to wait for its last broker."""
    return topic._replace(replication_factor=min(replication_factor, len(services.metadata.image.brokers)))


async def create_topics(
    services: Services, topics: Sequence[NewTopic], *, validate_only: bool = False
) -> list[CreatedTopic]:
    def refusal(configs: Mapping[str, str]) -> str | None:
        try:
            check_topic_configs(configs, services.config)
        except KafkaError as error:
            return error.message
        return None

    start = placement_start()
    topic_ids = [random_uuid() for _ in topics]
    return await services.metadata.change(
        lambda image: plan_create_topics(
            image,
            topics,
            limits=topic_limits(services),
            check_configs=refusal,
            topic_ids=topic_ids,
            placement_start=start,
            validate_only=validate_only,
        )
    )


async def auto_create_topics(services: Services, names: list[str]) -> dict[str, ErrorCode]:
    """Create topics that a client merely named, with the broker's defaults; the codes of those refused.

    While the metadata cannot be changed there are none, so that a client asks again, as it does in Kafka while topics
    are being created.
    """
    try:
        results = await create_topics(services, [NewTopic(name) for name in names[:AUTO_CREATED_PER_REQUEST_MAX]])
    except MetadataStoreError:
        return {}
    return {
        result.name: result.outcome.code
        for result in results
        if result.outcome.code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
    }


async def create_initial_topics(services: Services) -> None:
    """Creates the topics that the broker was started with; those that exist stay as they are."""
    topics = [
        replicated(services, _new_topic(topic), topic.replication_factor)
        for topic in services.config.initial.topics
        if topic.name not in services.metadata.image.topics
    ]
    try:
        results = await create_topics(services, topics)
    except MetadataStoreError as error:
        results = [CreatedTopic(topic.name, Outcome.refused(error)) for topic in topics]
    for result in results:
        if result.outcome.code != ErrorCode.NONE:
            logger.error("topic %s cannot be created: %s", result.name, result.outcome.message)


def _new_topic(topic: InitialTopic) -> NewTopic:
    configs = [("cleanup.policy", topic.cleanup_policy)] if topic.cleanup_policy else []
    return NewTopic(topic.name, topic.partition_count, configs=configs)
