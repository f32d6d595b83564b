"""Ending transactions in their partitions: writing markers, and doing so until all are written.

The coordinator's decision is final, so a partition that cannot take its marker now is tried again; one that no
longer exists has nothing to end, nor has one that already knows a newer epoch of the producer, nor has the log of
the coordinators themselves, whose records are never part of a transaction. A cluster will send the markers of other
leaders through WriteTxnMarkers, whose handler calls the same `write_marker`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Collection
from typing import TYPE_CHECKING

from oncelog.broker.base.immediate_future import Promise
from oncelog.broker.base.turns import Pace
from oncelog.broker.coordinator.txn.requests import NeedsProducerId, WriteMarkers
from oncelog.broker.replica.waiters import AckCountdown
from oncelog.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from oncelog.broker.coordinator.run.context import Shard
    from oncelog.broker.coordinator.txn.coordinator import TransactionCoordinator
    from oncelog.broker.coordinator.txn.state import TopicPartition
    from oncelog.broker.replica.partition import Partition
    from oncelog.broker.requests.services import Services

logger = logging.getLogger(__name__)

RETRY_SECONDS = 0.5
_NOTHING_TO_END = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_TOPIC_EXCEPTION,
)


def write_marker(
    services: Services, partition: TopicPartition, marker: WriteMarkers, coordinator_epoch: int
) -> tuple[Partition, int]:
    """Append a marker; the partition, and the offset that has to become safe. KafkaError if it is refused."""
    topic, index = partition
    if topic == services.transactions.topic:
        # Kafka writes it, and takes it for a record that it cannot read when it loads the log.
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} is never part of a transaction")
    found = services.partitions.leader(topic, index)
    result = found.append_marker(
        marker.producer_id,
        marker.producer_epoch,
        commit=marker.commit,
        coordinator_epoch=coordinator_epoch,
        version=marker.client_version,
        now_ms=services.clock.wall_ms(),
    )
    if topic == services.groups.topic:
        shard = services.groups.shard_of_partition(index)
        if shard is not None:
            shard.marker_written(marker.producer_id, marker.producer_epoch, marker.commit)
    return found, result.last_offset + 1


class MarkerWriter:
    """Performs the effects of transaction coordinators."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._retries: set[asyncio.TimerHandle] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def perform(self, shard: Shard[TransactionCoordinator], effect: WriteMarkers) -> None:
        self._write(shard, effect, effect.partitions)

    def close(self) -> None:
        for retry in self._retries:
            retry.cancel()
        for task in self._tasks:
            task.cancel()
        self._retries.clear()

    def _write(
        self, shard: Shard[TransactionCoordinator], effect: WriteMarkers, partitions: Collection[TopicPartition]
    ) -> None:
        failed: list[TopicPartition] = []
        countdown: AckCountdown[None] = AckCountdown(None)
        # For the markers that are not written yet.
        countdown.expect()
        left = deque(partitions)

        def write_some() -> None:
            if not shard.loaded or not shard.coordinator.awaits(effect):
                # The coordinator has reloaded its log, has asked for these markers again, and may have them by now.
                return
            # A partition whose file is not open takes a hundred times as long as another.
            pace = Pace(self._services.turns)
            while left:
                self._write_one(shard, effect, left.popleft(), len(partitions) == 1, countdown, failed)
                if pace.is_over:
                    break
            if left:
                self._services.turns.call(write_some)
            else:
                countdown.arrived()

        write_some()
        countdown.then(lambda _: self._finish(shard, effect, failed))

    def _write_one(
        self,
        shard: Shard[TransactionCoordinator],
        effect: WriteMarkers,
        partition: TopicPartition,
        is_only: bool,
        countdown: AckCountdown[None],
        failed: list[TopicPartition],
    ) -> None:
        try:
            found, offset = write_marker(self._services, partition, effect, shard.partition.leader_epoch)
        except KafkaError as error:
            _note_failure(effect, partition, error, failed)
            return
        committed = found.committed(offset, alone=is_only)
        if committed is not None:
            _expect(countdown, committed, partition, effect, failed)

    def _finish(self, shard: Shard[TransactionCoordinator], effect: WriteMarkers, failed: list[TopicPartition]) -> None:
        if failed:
            self._retry_later(shard, effect, failed)
            return
        try:
            self._note_end(shard, effect)
        except NeedsProducerId:
            task = asyncio.get_running_loop().create_task(self._note_end_with_new_id(shard, effect))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _note_end_with_new_id(self, shard: Shard[TransactionCoordinator], effect: WriteMarkers) -> None:
        try:
            new_producer_id = await self._services.producer_ids.next_id()
        except KafkaError as error:
            logger.warning("%s waits for a producer id: %s", effect.transactional_id, error.message)
            self._retry_later(shard, effect, [])
        else:
            self._note_end(shard, effect, new_producer_id)

    def _note_end(
        self, shard: Shard[TransactionCoordinator], effect: WriteMarkers, new_producer_id: int | None = None
    ) -> None:
        if not shard.loaded:
            return
        try:
            shard.tell(lambda coordinator, now: coordinator.markers_written(effect, now, new_producer_id))
        except KafkaError as error:
            logger.warning("the end of %s is not noted yet: %s", effect.transactional_id, error)

    def _retry_later(
        self, shard: Shard[TransactionCoordinator], effect: WriteMarkers, failed: list[TopicPartition]
    ) -> None:
        def again() -> None:
            self._retries.discard(handle)
            self._write(shard, effect, failed)

        handle = asyncio.get_running_loop().call_later(RETRY_SECONDS, again)
        self._retries.add(handle)


def _expect(
    countdown: AckCountdown[None],
    committed: Promise[None],
    partition: TopicPartition,
    effect: WriteMarkers,
    failed: list[TopicPartition],
) -> None:
    def arrive(_: Promise[None]) -> None:
        error = committed.exception()
        if isinstance(error, KafkaError):
            _note_failure(effect, partition, error, failed)
        countdown.arrived()

    countdown.expect()
    committed.then(arrive)


def _note_failure(
    effect: WriteMarkers, partition: TopicPartition, error: KafkaError, failed: list[TopicPartition]
) -> None:
    if error.code not in _NOTHING_TO_END:
        logger.warning("%s-%d takes no marker for %s yet: %s", *partition, effect.transactional_id, error)
        failed.append(partition)
