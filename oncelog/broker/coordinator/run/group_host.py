"""The host of the group coordinators, with its topic `__consumer_offsets` and its settings."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from oncelog.broker.admin.topics import create_topics, replicated
from oncelog.broker.coordinator.group.settings import ASSIGNORS, OFFSETS_AT_ONCE, GroupSettings
from oncelog.broker.coordinator.run.host import CoordinatorHost
from oncelog.broker.metadata.plans.topics import NewTopic
from oncelog.protocol.errors import KafkaError
from oncelog.protocol.primitives import ZERO_UUID

if TYPE_CHECKING:
    from oncelog.broker.base.now import Now
    from oncelog.broker.base.turns import Turns
    from oncelog.broker.config import BrokerConfig
    from oncelog.broker.coordinator.contract import Result
    from oncelog.broker.coordinator.effects import BatchLimit
    from oncelog.broker.coordinator.group.coordinator import GroupCoordinator
    from oncelog.broker.coordinator.group.offsets import OffsetKey
    from oncelog.broker.coordinator.run.context import Shard
    from oncelog.broker.metadata.image import MetadataImage
    from oncelog.broker.requests.services import Services

logger = logging.getLogger(__name__)

TOPIC = "__consumer_offsets"

R = TypeVar("R")


async def settled(reply: R | Awaitable[R]) -> R:
    """What a coordinator's host returned, waited for where it has to be."""
    return await reply if inspect.isawaitable(reply) else reply


def make_group_host(services: Services) -> CoordinatorHost[GroupCoordinator]:
    config = services.config
    topic = NewTopic(
        TOPIC,
        partition_count=config.int("offsets.topic.num.partitions"),
        configs=[
            ("cleanup.policy", "compact"),
            ("compression.type", "producer"),
            ("segment.bytes", str(config.int("offsets.topic.segment.bytes"))),
        ],
    )
    settings = SettingsInForce(services)

    def make_coordinator(_: int, batch_bytes_max: BatchLimit) -> GroupCoordinator:
        # Loaded for the first group, since it is a tenth of what a broker would have to load at its start.
        from oncelog.broker.coordinator.group.coordinator import GroupCoordinator

        return GroupCoordinator(settings, lambda: services.metadata.image, batch_bytes_max)

    def with_replicas(topic: NewTopic) -> NewTopic:
        return replicated(services, topic, config.int("offsets.topic.replication.factor"))

    host = CoordinatorHost(
        topic,
        make_coordinator,
        broker_id=services.broker_id,
        metadata=services.metadata,
        partitions=services.partitions,
        clock=services.clock,
        turns=services.turns,
        create_topics=lambda topics: create_topics(services, [with_replicas(topic) for topic in topics]),
    )
    services.metadata.subscribe(_DeletedTopics(host, services.turns).image_changed)
    return host


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


class SettingsInForce:
    """The broker's settings as coordinators ask for them; read anew when dynamic ones have changed."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._config = services.config
        self._settings = group_settings(services.config)

    def __call__(self) -> GroupSettings:
        if self._config is not self._services.config:
            self._config = self._services.config
            self._settings = group_settings(self._config)
        return self._settings


async def forget_missing_topics(services: Services) -> None:
    """At the start: a broker that died while it deleted a topic may have left offsets of it behind."""

    def is_missing(name: str, topic_id: bytes) -> bool:
        topic = services.metadata.image.topic(name)
        return topic is None or topic_id not in (ZERO_UUID, topic.id)

    for shard in services.groups.shards:
        try:
            count = await _forget_offsets(shard, is_missing, services.turns)
        except KafkaError as error:
            logger.warning("offsets of deleted topics may be left in %s: %s", shard.partition.log.directory, error)
            continue
        if count:
            logger.info("removed %d offsets of deleted topics from %s", count, shard.partition.log.directory)


class _DeletedTopics:
    """Has the coordinators forget the offsets of topics that are gone. One that still loads does so afterwards."""

    def __init__(self, host: CoordinatorHost[GroupCoordinator], turns: Turns) -> None:
        self._host = host
        self._turns = turns
        self._tasks: set[asyncio.Task[None]] = set()

    def image_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        if old.topics is new.topics:
            return
        ids = {name: topic.id for name, topic in new.topics.items()}
        deleted = frozenset(name for name, topic in old.topics.items() if ids.get(name) != topic.id)
        if deleted:
            for shard in self._host.shards:
                task = asyncio.get_running_loop().create_task(_forget_topics(shard, deleted, self._turns))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)


async def _forget_topics(shard: Shard[GroupCoordinator], names: frozenset[str], turns: Turns) -> None:
    try:
        await _forget_offsets(shard, lambda topic, _: topic in names, turns)
    except KafkaError as error:
        logger.warning("offsets of deleted topics stay in %s: %s", shard.partition.log.directory, error)


async def _forget_offsets(shard: Shard[GroupCoordinator], is_gone: Callable[[str, bytes], bool], turns: Turns) -> int:
    """A bounded number in each turn. Those that are committed meanwhile stay: their topic was made anew."""
    await shard.loading()
    before = shard.partition.log.end_offset
    keys = shard.coordinator.offset_keys()
    count = 0
    while some := list(islice(keys, OFFSETS_AT_ONCE)):
        forget = partial(_forget_some, keys=some, before=before, is_gone=is_gone)
        count += await settled(shard.run(forget))
        await turns.next()
    return count


def _forget_some(
    coordinator: GroupCoordinator,
    now: Now,
    *,
    keys: Sequence[OffsetKey],
    before: int,
    is_gone: Callable[[str, bytes], bool],
) -> Result[int]:
    return coordinator.forget_offsets(keys, before, is_gone, now)
