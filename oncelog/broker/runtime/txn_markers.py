"""Ending transactions in their partitions: writing markers, and doing so until all are written.

The coordinator's decision is final, so a partition that cannot take its marker now is tried again; one that no
longer exists has nothing to end. A cluster will send the markers of other leaders through WriteTxnMarkers, whose
handler calls the same `write_marker`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from oncelog.broker.coordinator.transaction_requests import WriteMarkers
from oncelog.broker.runtime.waiters import AckCountdown
from oncelog.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from oncelog.broker.coordinator.transaction_state import TopicPartition
    from oncelog.broker.coordinator.transactions import TransactionCoordinator
    from oncelog.broker.replica.partition import Partition
    from oncelog.broker.runtime.services import Services
    from oncelog.broker.runtime.shard import Shard

logger = logging.getLogger(__name__)

RETRY_SECONDS = 0.5
_NOTHING_TO_END = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)


def write_marker(
    services: Services, partition: TopicPartition, marker: WriteMarkers, coordinator_epoch: int
) -> tuple[Partition, int]:
    """Append a marker; the partition, and the offset that has to become safe. KafkaError if it is refused."""
    topic, index = partition
    found = services.partitions.leader(topic, index)
    result = found.append_marker(
        marker.producer_id,
        marker.producer_epoch,
        commit=marker.commit,
        coordinator_epoch=coordinator_epoch,
        version=marker.client_version,
        now_ms=services.clock.now_ms(),
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

    def perform(self, shard: Shard[TransactionCoordinator], effect: WriteMarkers) -> None:
        self._write(shard, effect, effect.partitions)

    def close(self) -> None:
        for retry in self._retries:
            retry.cancel()
        self._retries.clear()

    def _write(
        self, shard: Shard[TransactionCoordinator], effect: WriteMarkers, partitions: Iterable[TopicPartition]
    ) -> None:
        countdown: AckCountdown[None] | None = None
        failed: list[TopicPartition] = []
        for partition in partitions:
            try:
                found, offset = write_marker(self._services, partition, effect, shard.partition.leader_epoch)
            except KafkaError as error:
                if error.code not in _NOTHING_TO_END:
                    logger.warning("%s-%d takes no marker for %s: %s", *partition, effect.transactional_id, error)
                    failed.append(partition)
                continue
            if found.log.high_watermark < offset:
                countdown = countdown or AckCountdown(None)
                self._expect(countdown, found, offset, partition, failed)
        if countdown is None:
            self._finish(shard, effect, failed)
        else:
            countdown.future.add_done_callback(lambda _: self._finish(shard, effect, failed))

    def _expect(
        self,
        countdown: AckCountdown[None],
        found: Partition,
        offset: int,
        partition: TopicPartition,
        failed: list[TopicPartition],
    ) -> None:
        def safe(error: KafkaError | None) -> None:
            if error is not None and error.code not in _NOTHING_TO_END:
                failed.append(partition)
            countdown.arrived()

        countdown.expect()
        found.when_safe(offset, safe)

    def _finish(self, shard: Shard[TransactionCoordinator], effect: WriteMarkers, failed: list[TopicPartition]) -> None:
        if not shard.loaded:
            return
        if failed:
            self._retry_later(shard, effect, failed)
            return
        try:
            shard.run(lambda coordinator, now_ms: coordinator.markers_written(effect, now_ms))
        except KafkaError as error:
            logger.warning("the end of %s is not noted yet: %s", effect.transactional_id, error)

    def _retry_later(
        self, shard: Shard[TransactionCoordinator], effect: WriteMarkers, failed: list[TopicPartition]
    ) -> None:
        def again() -> None:
            self._retries.discard(handle)
            if shard.loaded:
                self._write(shard, effect, failed)

        handle = asyncio.get_running_loop().call_later(RETRY_SECONDS, again)
        self._retries.add(handle)
