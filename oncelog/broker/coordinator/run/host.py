"""Which shard is in charge of a group or of a transactional id, and the internal topic that its state is in.

A key hashes to a partition of the topic as Kafka hashes it, so that a directory written by one is understood by
the other. Shards whose partition has records are loaded at the start, because transactions and members in them
have timers running; the others when they are first asked for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from oncelog.broker.base.immediate_future import Promise
from oncelog.broker.coordinator.java_order import java_hash
from oncelog.broker.metadata.plans.topics import NewTopic
from oncelog.broker.metadata.store import MetadataStoreError
from oncelog.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from oncelog.broker.base.clock import Clock
    from oncelog.broker.base.now import Now
    from oncelog.broker.base.turns import Turns
    from oncelog.broker.coordinator.contract import Coordinator, Result
    from oncelog.broker.coordinator.effects import BatchLimit
    from oncelog.broker.coordinator.run.context import Shard
    from oncelog.broker.metadata.image import MetadataImage
    from oncelog.broker.metadata.plans.topics import CreatedTopic
    from oncelog.broker.metadata.runtime import MetadataRuntime
    from oncelog.broker.replica.manager import ReplicaManager

logger = logging.getLogger(__name__)

C = TypeVar("C", bound="Coordinator")
R = TypeVar("R")
CreateTopics = Callable[[list[NewTopic]], Awaitable[list["CreatedTopic"]]]


@lru_cache(maxsize=256)
def partition_for(key: str, partition_count: int) -> int:
    """Kafka takes the absolute value of Java's hash, and 0 for the one that has none in 32 bits."""
    value = java_hash(key)
    if value == 1 << 31:
        return 0
    return (value if value < 1 << 31 else (1 << 32) - value) % partition_count


class CoordinatorHost(Generic[C]):
    """All shards of one kind of coordinator on this broker."""

    def __init__(
        self,
        topic: NewTopic,
        make_coordinator: Callable[[int, BatchLimit], C],
        *,
        broker_id: int,
        metadata: MetadataRuntime,
        partitions: ReplicaManager,
        clock: Clock,
        turns: Turns,
        create_topics: CreateTopics,
        perform: Callable[[Shard[C], Any], None] | None = None,
    ) -> None:
        self._topic = topic
        self._make_coordinator = make_coordinator
        self._broker_id = broker_id
        self._metadata = metadata
        self._partitions = partitions
        self._clock = clock
        self._turns = turns
        self._create_topics = create_topics
        self._perform = perform
        self._shards: dict[int, Shard[C]] = {}

    @property
    def topic(self) -> str:
        return self._topic.name

    @property
    def shards(self) -> list[Shard[C]]:
        """Those that are in memory; a partition that was never written to has none, one that is offline no longer."""
        return [shard for shard in self._shards.values() if shard.is_online]

    async def load_all(self, has_records: Callable[[str, int], bool]) -> None:
        """Load the shards of the partitions that this broker leads and that have records."""
        image = self._metadata.image.topic(self._topic.name)
        if image is None:
            return
        led = [state.index for state in image.partitions if state.leader == self._broker_id]
        with_records = [index for index in led if has_records(self._topic.name, index)]
        await asyncio.gather(*(self._load(index) for index in with_records))

    async def _load(self, index: int) -> None:
        """A partition that cannot be opened does not keep the others from their work."""
        try:
            shard = self._shard(index)
            if not shard.loaded:
                await shard.loading()
        except KafkaError as error:
            logger.error("the coordinator of %s-%d does not start: %s", self._topic.name, index, error)

    async def leader_of(self, key: str) -> int:
        """The broker in charge of a key; makes the topic if this is the first time that anyone asks."""
        image = self._metadata.image.topic(self._topic.name)
        if image is None:
            try:
                (created,) = await self._create_topics([self._topic])
            except MetadataStoreError as error:
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message) from error
            if created.outcome.code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                logger.error("%s cannot be created: %s", self._topic.name, created.outcome.message)
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, created.outcome.message or "")
            image = self._metadata.image.topic(self._topic.name)
            assert image is not None
        index = partition_for(key, len(image.partitions))
        leader = image.partitions[index].leader
        if leader < 0:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator's partition has no leader")
        if index in self._shards:
            self._shards[index].check_online()
        return leader

    def run(self, key: str, operation: Callable[[C, Now], Result[R]]) -> R | Awaitable[R]:
        """Have the coordinator of a key decide. Waits while it loads."""
        shard = self.shard_for(key)
        return shard.run(operation) if shard.loaded else self._run_loaded(shard, operation)

    def shard_for(self, key: str) -> Shard[C]:
        return self._shard(self.partition_of(key))

    def partition_of(self, key: str) -> int:
        """The partition of the topic that a key's state is in."""
        image = self._metadata.image.topic(self._topic.name)
        if image is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, "ask FindCoordinator first")
        return partition_for(key, len(image.partitions))

    def shard_of_partition(self, index: int) -> Shard[C] | None:
        return self._shards.get(index)

    def image_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        """If someone deletes the topic, what it said is gone; a new one starts empty."""
        before, after = old.topic(self._topic.name), new.topic(self._topic.name)
        if before is not None and (after is None or after.id != before.id):
            self.close()

    def close(self) -> None:
        for shard in self._shards.values():
            shard.close()
        self._shards.clear()

    async def _run_loaded(self, shard: Shard[C], operation: Callable[[C, Now], Result[R]]) -> R:
        await shard.loading()
        result = shard.run(operation)
        return await result if isinstance(result, Promise) else result

    def _shard(self, index: int) -> Shard[C]:
        shard = self._shards.get(index)
        if shard is None:
            try:
                partition = self._partitions.leader(self._topic.name, index)
            except KafkaError as error:
                raise KafkaError(ErrorCode.NOT_COORDINATOR, error.message) from None
            # Loaded for the first shard; a broker starts faster without it.
            from oncelog.broker.coordinator.run.context import Shard

            shard = Shard(partial(self._make_coordinator, index), partition, self._clock, self._turns, self._perform)
            self._shards[index] = shard
            shard.start_loading()
        return shard
