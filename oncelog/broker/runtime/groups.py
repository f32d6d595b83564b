"""The host of the group coordinators, with its topic `__consumer_offsets` and its settings."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, TypeVar

from oncelog.broker.coordinator.assignors import ASSIGNORS
from oncelog.broker.coordinator.group import GroupSettings
from oncelog.broker.coordinator.groups import GroupCoordinator
from oncelog.broker.metadata.topic_plans import NewTopic
from oncelog.broker.runtime.coordinators import CoordinatorHost
from oncelog.broker.runtime.topics import create_topics
from oncelog.protocol.errors import KafkaError

if TYPE_CHECKING:
    from oncelog.broker.config import BrokerConfig
    from oncelog.broker.metadata.image import MetadataImage
    from oncelog.broker.runtime.services import Services
    from oncelog.broker.runtime.shard import Shard

logger = logging.getLogger(__name__)

TOPIC = "__consumer_offsets"

R = TypeVar("R")


async def settled(reply: R | Awaitable[R]) -> R:
    """What a coordinator's host returned, waited for where it has to be."""
    return await reply if inspect.isawaitable(reply) else reply


def make_group_host(services: Services) -> CoordinatorHost[GroupCoordinator]:
    config = services.config
    settings = group_settings(config)
    topic = NewTopic(
        TOPIC,
        partition_count=config.int("offsets.topic.num.partitions"),
        configs=[
            ("cleanup.policy", "compact"),
            ("compression.type", "producer"),
            ("segment.bytes", str(config.int("offsets.topic.segment.bytes"))),
        ],
    )
    host = CoordinatorHost(
        topic,
        lambda _: GroupCoordinator(settings, lambda: services.metadata.image),
        broker_id=services.broker_id,
        metadata=services.metadata,
        partitions=services.partitions,
        clock=services.clock,
        create_topics=lambda topics: create_topics(services, [_replicated(topic, services) for topic in topics]),
    )
    services.metadata.subscribe(_DeletedTopics(host).image_changed)
    return host


def _replicated(topic: NewTopic, services: Services) -> NewTopic:
    """As often as wished, or as there are brokers: a cluster that starts is not to wait for its last broker."""
    replication_factor = services.config.int("offsets.topic.replication.factor")
    return topic._replace(replication_factor=min(replication_factor, len(services.metadata.image.brokers)))


def group_settings(config: BrokerConfig) -> GroupSettings:
    return GroupSettings(
        initial_rebalance_delay_ms=config.int("group.initial.rebalance.delay.ms"),
        session_timeout_ms_min=config.int("group.min.session.timeout.ms"),
        session_timeout_ms_max=config.int("group.max.session.timeout.ms"),
        group_size_max=config.int("group.max.size"),
        offset_metadata_size_max=config.int("offset.metadata.max.bytes"),
        offsets_retention_ms=config.int("offsets.retention.minutes") * 60_000,
        offsets_retention_check_interval_ms=config.int("offsets.retention.check.interval.ms"),
        consumer_session_timeout_ms=config.int("group.consumer.session.timeout.ms"),
        consumer_heartbeat_interval_ms=config.int("group.consumer.heartbeat.interval.ms"),
        consumer_assignment_interval_ms=config.int("group.consumer.assignment.interval.ms"),
        consumer_group_size_max=config.int("group.consumer.max.size"),
        consumer_assignors=_known_assignors(config.list("group.consumer.assignors")),
        upgrade_enabled=config.text("group.consumer.migration.policy").lower() in ("upgrade", "bidirectional"),
        downgrade_enabled=config.text("group.consumer.migration.policy").lower() in ("downgrade", "bidirectional"),
    )


def _known_assignors(names: Sequence[str]) -> tuple[str, ...]:
    """Those of a Kafka configuration that are written in Java cannot run here."""
    known = tuple(name for name in names if name in ASSIGNORS)
    for name in names:
        if name not in known:
            logger.warning("group.consumer.assignors: there is no assignor %s", name)
    return known or ASSIGNORS


class _DeletedTopics:
    """Has the coordinators forget the offsets of topics that are gone. One that still loads does so afterwards."""

    def __init__(self, host: CoordinatorHost[GroupCoordinator]) -> None:
        self._host = host
        self._tasks: set[asyncio.Task[None]] = set()

    def image_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        if old.topics is new.topics:
            return
        ids = {name: topic.id for name, topic in new.topics.items()}
        deleted = frozenset(name for name, topic in old.topics.items() if ids.get(name) != topic.id)
        if deleted:
            for shard in self._host.shards:
                task = asyncio.get_running_loop().create_task(_forget_topics(shard, deleted))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)


async def _forget_topics(shard: Shard[GroupCoordinator], names: frozenset[str]) -> None:
    try:
        await shard.loading()
        await settled(shard.run(lambda coordinator, now_ms: coordinator.topics_deleted(names, now_ms)))
    except KafkaError as error:
        logger.warning("offsets of deleted topics stay in %s: %s", shard.partition.log.directory, error)
