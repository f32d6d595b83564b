"""The partitions of this broker, opened when they are first asked for, following the metadata image.

A change of topics may concern thousands of partitions, each with files to create or a directory to rename. The event
loop does as many of them as a turn allows, and the rest in later turns. One that is asked for before is done at once.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from oncelog.broker.base.ids import random_uuid
from oncelog.broker.base.turns import TURN_SECONDS
from oncelog.broker.log.disk import StorageError
from oncelog.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from oncelog.broker.base.clock import Clock
    from oncelog.broker.base.turns import Turns
    from oncelog.broker.log.log_manager import LogManager
    from oncelog.broker.metadata.image import MetadataImage, PartitionImage, TopicImage
    from oncelog.broker.replica.flusher import Flusher
    from oncelog.broker.replica.partition import Partition

logger = logging.getLogger(__name__)


class ReplicaManager:
    def __init__(
        self,
        broker_id: int,
        logs: LogManager,
        flusher: Flusher,
        flush_on_ack: bool,
        in_sync_count_min: Callable[[Mapping[str, str]], int],
        clock: Clock,
        turns: Turns,
    ) -> None:
        self._broker_id = broker_id
        self._logs = logs
        self._flusher = flusher
        self._flush_on_ack = flush_on_ack
        self._in_sync_count_min = in_sync_count_min
        self._clock = clock
        self._turns = turns
        self._image: MetadataImage | None = None
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._unopened: dict[tuple[str, int], str] = {}
        """Why a partition could not be opened, as it was last logged: clients ask for it again and again."""
        self._deleted: dict[tuple[str, int], None] = {}
        """Partitions of deleted topics whose directories are still to be renamed."""
        self._created: dict[tuple[str, int], None] = {}
        """Partitions of new topics that are still to be opened."""
        self._is_catching_up = False

    def __iter__(self) -> Iterator[Partition]:
        return iter(list(self._partitions.values()))

    def leader(self, topic: str, index: int) -> Partition:
        """The partition, if this broker leads it."""
        partition = self._partitions.get((topic, index)) or self._open(topic, index)
        if partition.is_follower:
            partition.check_leader()
        return partition

    def name_of(self, topic_id: bytes) -> str:
        topic = self._current_image().topic_by_id(topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        return topic.name

    def image_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        """Follow the image: delete logs of topics that are gone, apply configs, make logs of new topics.

        Topics of the first image are opened when they are first asked for."""
        first, self._image = self._image is None, new
        if first or old.topics is new.topics:
            return
        for name, topic in old.topics.items():
            current = new.topics.get(name)
            if current is topic:
                continue
            if current is None or current.id != topic.id:
                self._delete(topic)
                continue
            if current.configs != topic.configs:
                self._reconfigure(current)
            self._take_roles(current)
        for name, topic in new.topics.items():
            if old.topics.get(name) is not topic:
                self._create(topic)
        if not self._is_catching_up:
            self._catch_up()

    def broker_config_changed(self) -> None:
        """A broker-level default changed, and with it every topic that does not override it."""
        for topic in self._current_image().topics.values():
            self._reconfigure(topic)

    def close(self) -> None:
        """Nobody may go on waiting; the logs themselves are closed by their manager."""
        for partition in self._partitions.values():
            partition.close()
        self._created.clear()
        for key in list(self._deleted):
            self._remove(key)

    async def deletions_done(self) -> None:
        """Wait until no directory has the name of a deleted partition; a kill before would leave it as a stray."""
        while self._deleted:
            await self._turns.next()

    def _current_image(self) -> MetadataImage:
        assert self._image is not None, "the image is loaded before the first request"
        return self._image

    def _take_roles(self, topic: TopicImage) -> None:
        """Opened partitions lead or follow, as the image says."""
        for state in topic.partitions:
            partition = self._partitions.get((topic.name, state.index))
            if partition is not None:
                self._take_role(partition, state)

    def _take_role(self, partition: Partition, state: PartitionImage) -> None:
        if state.leader == self._broker_id:
            partition.become_leader(state.leader_epoch, len(state.isr))
        elif not partition.is_follower or partition.leader_epoch != state.leader_epoch:
            partition.become_follower(state.leader_epoch, state.leader)

    def _open(self, topic: str, index: int) -> Partition:
        image = self._current_image().topics.get(topic)
        if image is None or not 0 <= index < len(image.partitions):
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"This server does not host this topic-partition. There is no partition {topic}-{index}.",
            )
        # Loaded for the first partition; a broker starts faster without it.
        from oncelog.broker.replica.partition import Partition, not_leader

        state = image.partitions[index]
        if state.leader != self._broker_id:
            raise not_leader(state.leader, topic, index)
        if (topic, index) in self._deleted:
            # Of an earlier topic of the same name.
            self._remove((topic, index))
        in_sync_count_min = self._in_sync_count_min(image.configs)
        try:
            log = self._logs.create(topic, index, image.id, now_ms=self._clock.wall_ms())
        except (StorageError, OSError) as error:
            self._log_unopened(topic, index, str(error))
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from None
        self._unopened.pop((topic, index), None)
        partition = Partition(topic, image.id, index, log, self._flusher, self._flush_on_ack)
        partition.in_sync_count_min = in_sync_count_min
        self._take_role(partition, state)
        self._partitions[topic, index] = partition
        return partition

    def _log_unopened(self, topic: str, index: int, reason: str) -> None:
        if self._unopened.get((topic, index)) != reason:
            self._unopened[topic, index] = reason
            logger.error("%s-%d cannot be opened: %s", topic, index, reason)

    def _create(self, topic: TopicImage) -> None:
        """The many partitions of internal topics are made when they are first written to."""
        if topic.internal:
            return
        for state in topic.partitions:
            if state.leader == self._broker_id and (topic.name, state.index) not in self._partitions:
                self._created[topic.name, state.index] = None

    def _delete(self, topic: TopicImage) -> None:
        """From now on nobody finds the partitions, or may go on with them."""
        for state in topic.partitions:
            key = (topic.name, state.index)
            self._unopened.pop(key, None)
            self._created.pop(key, None)
            self._deleted[key] = None
            partition = self._partitions.pop(key, None)
            if partition is not None:
                partition.close()

    def _catch_up(self) -> None:
        """Does what the last changes of topics left to be done, as far as this turn allows."""
        ends_at = time.perf_counter() + TURN_SECONDS
        self._is_catching_up = True
        while self._deleted or self._created:
            if time.perf_counter() >= ends_at:
                self._turns.call(self._catch_up)
                return
            if self._deleted:
                self._remove(next(iter(self._deleted)))
            else:
                topic, index = next(iter(self._created))
                del self._created[topic, index]
                # The reason is logged, and whoever asks for the partition gets it as an answer.
                with suppress(KafkaError):
                    self.leader(topic, index)
        self._is_catching_up = False

    def _remove(self, key: tuple[str, int]) -> None:
        del self._deleted[key]
        try:
            self._logs.delete(*key, token=random_uuid().hex(), now_ms=self._clock.wall_ms())
        except (StorageError, OSError) as error:
            logger.error("%s", error)

    def _reconfigure(self, topic: TopicImage) -> None:
        self._logs.update_config(topic.name, len(topic.partitions))
        in_sync_count_min = self._in_sync_count_min(topic.configs)
        for state in topic.partitions:
            partition = self._partitions.get((topic.name, state.index))
            if partition is not None:
                partition.in_sync_count_min = in_sync_count_min
