"""A partition as this broker holds it: its log, its role, its leader epoch, and how far its records are committed.

    become_leader(epoch)       it takes writes and serves readers
    become_follower(epoch)     it refuses both; whoever waits for records is sent to the new leader
    go_offline(error)          the disk has failed, or the partition is gone: nothing is acknowledged any more

`ReplicaManager` calls the first two as the metadata image says. Nothing else changes these states, and nobody but the
partition moves its high watermark (the log only keeps it within its bounds).

The high watermark is where readers stop. On a single node it follows the flushed offset (with `log.flush.on.ack`) or
the end of the log (without); replication will make it the least of the in-sync replicas' ends. Whatever waits for
records to be committed waits for it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from oncelog.broker.base.immediate_future import Promise
from oncelog.broker.log.disk import StorageError
from oncelog.broker.log.log_writer import AppendResult
from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.log.producer_state import AppendOrigin
from oncelog.broker.replica.waiters import CommitWaiters, FetchWaiter
from oncelog.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from oncelog.broker.log.verification import VerificationGuard
    from oncelog.broker.replica.flusher import Flusher
    from oncelog.protocol.records.batch import BatchHeader

logger = logging.getLogger(__name__)


class Partition:
    __slots__ = (
        "_appended",
        "_completions",
        "_flush_on_ack",
        "_flusher",
        "_is_offline",
        "_refusal",
        "_refuses_writes",
        "_waiters",
        "fetch_waiters",
        "in_sync_count",
        "in_sync_count_min",
        "index",
        "is_follower",
        "leader_epoch",
        "log",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        topic: str,
        topic_id: bytes,
        index: int,
        log: PartitionLog,
        flusher: Flusher,
        flush_on_ack: bool,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.log = log
        self.leader_epoch = -1
        self._flusher = flusher
        self._flush_on_ack = flush_on_ack
        self._completions = flusher.completions
        self._waiters = CommitWaiters(flusher.completions)
        self._appended: list[tuple[int, int]] = []
        """End offset and size of each batch that is to be flushed: what long polls may expect of the flush."""
        self._refusal: KafkaError | None = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the broker has just opened it")
        """Why clients are refused: because it follows another broker, or is offline. None for a leader."""
        self._is_offline = False
        self.is_follower = False
        self._refuses_writes = False
        """Whether the last append failed, as on a full disk: said once, not for every request."""
        self.fetch_waiters: set[FetchWaiter] = set()
        self.in_sync_count = 1
        self.in_sync_count_min = 1

    def become_leader(self, epoch: int, in_sync_count: int) -> None:
        self.in_sync_count = in_sync_count
        if self._is_offline or (epoch == self.leader_epoch and self._refusal is None):
            return
        log = self.log
        self.leader_epoch = epoch
        log.assign_epoch(epoch, log.end_offset)
        self.is_follower = False
        self._refusal = None
        # All that a log holds when it is opened is on disk.
        self._advance(log.flushed_offset if self._flush_on_ack else log.end_offset, 0)

    def become_follower(self, epoch: int, leader: int) -> None:
        if self._is_offline:
            return
        self.leader_epoch = epoch
        self.is_follower = True
        self._refuse(not_leader(leader, self.topic, self.index))

    def go_offline(self, error: KafkaError | StorageError) -> None:
        """For good: what is not known to be durable is not acknowledged."""
        self._is_offline = True
        if not isinstance(error, KafkaError):
            error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        self._refuse(error)

    def close(self) -> None:
        """The partition is deleted or its broker stops."""
        self.go_offline(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the partition is no longer here"))

    def check_leader(self) -> None:
        """Refuse a client that this broker cannot serve."""
        if self._refusal is not None:
            # A new one each time: an error that is raised again and again collects the frames that it came through.
            raise KafkaError(self._refusal.code, self._refusal.message)

    def _refuse(self, error: KafkaError) -> None:
        """From now on, and those who wait."""
        self._refusal = error
        self._waiters.fail(error)
        self._wake_fetches()

    def append(
        self,
        records: memoryview,
        header: BatchHeader,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guard: VerificationGuard | None = None,
    ) -> AppendResult:
        """Append one checked batch. It is safe, and readable, once the high watermark has passed it."""
        self.check_leader()
        try:
            result = self.log.append(
                records, header, origin=origin, leader_epoch=self.leader_epoch, now_ms=now_ms, guard=guard
            )
        except StorageError as error:
            self.go_offline(error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from None
        except KafkaError as error:
            if error.code == ErrorCode.KAFKA_STORAGE_ERROR and not self._refuses_writes:
                self._refuses_writes = True
                logger.error("%s-%d takes no writes for now: %s", self.topic, self.index, error.message)
            raise
        if self._refuses_writes:
            self._refuses_writes = False
            logger.warning("%s-%d takes writes again", self.topic, self.index)
        if not result.duplicate:
            self._grow(result.size_bytes)
        return result

    def append_marker(
        self, producer_id: int, producer_epoch: int, *, commit: bool, coordinator_epoch: int, version: int, now_ms: int
    ) -> AppendResult:
        """End a producer's transaction in this partition."""
        self.check_leader()
        try:
            result = self.log.append_marker(
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                commit=commit,
                coordinator_epoch=coordinator_epoch,
                leader_epoch=self.leader_epoch,
                now_ms=now_ms,
                transaction_version=version,
            )
        except StorageError as error:
            self.go_offline(error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from None
        self._grow(result.size_bytes)
        return result

    def committed(self, offset: int, *, alone: bool = True) -> Promise[None] | None:
        """None if everything below `offset` is committed; else a future of that, which fails if it can never be.

        The caller waits for nothing else if it is `alone`. Then the log may be synced here and now.
        """
        log = self.log
        if log.high_watermark >= offset:
            return None
        if alone and self._refusal is None and self._flusher.sync_now(self) and log.high_watermark >= offset:
            return None
        if self._refusal is not None:
            # As when a sync has just failed.
            future: Promise[None] = Promise()
            self._completions.add(future, KafkaError(self._refusal.code, self._refusal.message))
            return future
        future = self._waiters.add(offset)
        self._flusher.hurry(self)
        return future

    def flushed(self) -> None:
        """The flusher has moved the log's flushed offset."""
        offset = self.log.flushed_offset
        size_bytes = batch_count = 0
        for end_offset, batch_bytes in self._appended:
            if end_offset > offset:
                break
            size_bytes += batch_bytes
            batch_count += 1
        del self._appended[:batch_count]
        self._advance(offset, size_bytes)

    def check_leader_epoch(self, epoch: int) -> None:
        """Refuse a client whose idea of the leader is older or newer than ours (KIP-320)."""
        if epoch == -1 or epoch == self.leader_epoch:
            return
        if epoch < self.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, f"the leader epoch is {self.leader_epoch}")
        raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"the leader epoch is {self.leader_epoch}")

    def check_enough_in_sync(self) -> None:
        """acks=all promises that `min.insync.replicas` have the records."""
        if self.in_sync_count < self.in_sync_count_min:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self.in_sync_count} in-sync replicas are fewer than min.insync.replicas={self.in_sync_count_min}",
            )

    def readable_end(self, read_committed: bool) -> int:
        return self.log.last_stable_offset if read_committed else self.log.high_watermark

    def epoch_of(self, offset: int) -> int:
        """The leader epoch in which the record at `offset` was written, -1 where that is not known."""
        return self.log.epochs.epoch_for_offset(offset)

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest epoch up to `epoch` that the log has, and the offset at which it ended."""
        return self.log.offset_for_epoch(epoch)

    def _grow(self, size_bytes: int) -> None:
        log = self.log
        if self._flush_on_ack:
            self._appended.append((log.end_offset, size_bytes))
            # Whoever waits for its own records says so after the append.
            self._flusher.mark_dirty(self, awaited=bool(self.fetch_waiters))
            return
        self._advance(log.end_offset, size_bytes)
        if log.end_offset - log.recovery_point >= log.config.flush_messages:
            self._flusher.mark_dirty(self)

    def _advance(self, offset: int, size_bytes: int) -> None:
        log = self.log
        high_watermark = log.high_watermark
        if offset <= high_watermark:
            return
        stable_offset = log.last_stable_offset if self.fetch_waiters else high_watermark
        log.update_high_watermark(offset)
        self._waiters.reached(offset)
        if stable_offset < high_watermark and log.last_stable_offset > stable_offset:
            # The end of a transaction: readers of committed records were told of its bytes before they could have them.
            self._wake_fetches()
        elif self.fetch_waiters:
            for waiter in list(self.fetch_waiters):
                waiter.grew(size_bytes)

    def _wake_fetches(self) -> None:
        for waiter in list(self.fetch_waiters):
            waiter.wake()


def not_leader(leader: int, topic: str, index: int) -> KafkaError:
    who = f"broker {leader} leads {topic}-{index}" if leader >= 0 else f"{topic}-{index} has no leader"
    return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, who)
