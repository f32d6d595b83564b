"""What a broker does for its logs in the background, by timers: each job runs, and says when to run it next.

    checkpoints      what changed since the last ones, written in a thread
    retention        opened logs, in slices; logs that nobody opened when their time has come
    removal          files of deleted segments and partitions, in a thread, when their delay is over
    producer expiry  idle producer ids
    snapshots        of the producers of logs with very many of them
    flushing         by flush.ms, and of what no ack has waited for: closed segments, the first records of a partition
    compaction       see `log_cleaning`

Nothing here is done per partition that nobody touched, except once after the start to learn when its oldest
segment expires.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from oncelog.broker.base.worker import Worker
from oncelog.broker.log.disk import StorageError
from oncelog.broker.maintenance.log_cleaning import LogCleaning
from oncelog.broker.maintenance.slices import PAUSE_S, Slices, run_steps
from oncelog.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from oncelog.broker.log.log_config import LogConfig
    from oncelog.broker.log.partition_log import PartitionLog
    from oncelog.broker.metadata.image import MetadataImage
    from oncelog.broker.replica.flusher import Flusher
    from oncelog.broker.replica.partition import Partition
    from oncelog.broker.requests.services import Services

    Job = Callable[[], Awaitable[int]]
    """Does its work and returns the milliseconds until it wants to be called again."""

logger = logging.getLogger(__name__)

LOOK_MS_MAX = 60_000
"""Jobs whose next date may come nearer without their being told look at least this often."""
FLUSH_LOOK_MS_MIN = 100
FLUSHES_AT_ONCE = 16
SNAPSHOTS_LOOK_MS = 1000
SEGMENTS_REMOVED_AT_ONCE = 128
RETRY_MS = 10_000
NOT_HERE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)


class Housekeeping:
    """Made and started once the broker serves; `flusher` is the one that partitions are flushed by."""

    def __init__(self, services: Services, flusher: Flusher) -> None:
        self._services = services
        self._clock = services.clock
        self._flusher = flusher
        self._worker = Worker("oncelog-housekeeping", threads_max=2)
        self._cleaning = LogCleaning(services, self._worker, flusher, services.checkpoints.write)
        self._tasks: list[asyncio.Task[None]] = []
        self._due: list[tuple[int, str, int]] = []
        """A heap of unopened partitions by the time at which they must be opened."""
        self._unknown_topics: set[str] | None = None
        """Topics of which it is not known when their unopened partitions are due; None for all."""
        self._unflushed: dict[Partition, tuple[int, int]] = {}
        """Recovery points that were behind at the last look, and since when."""
        self._removal_ms = 0
        """When files are removed next."""
        self._earlier_removal = asyncio.Event()
        """Set when that is not early enough."""

    def start(self) -> None:
        config = self._services.config
        delay_ms = config.int("log.initial.task.delay.ms")
        jobs: list[tuple[str, Job, int]] = [
            ("checkpoints", self.checkpoint, delay_ms),
            ("retention", self.retain, delay_ms),
            ("file removal", self.remove_files, delay_ms),
            ("producer expiry", self.expire_producers, delay_ms),
            ("producer snapshots", self.write_snapshots, SNAPSHOTS_LOOK_MS),
            ("flushing", self.flush, delay_ms),
        ]
        if config.bool("log.cleaner.enable"):
            jobs.append(("compaction", self.clean, config.int("log.cleaner.backoff.ms")))
        self._services.metadata.subscribe(self._image_changed)
        self._removal_ms = self._clock.wall_ms() + delay_ms
        self._services.logs.on_doomed = self._doomed
        self._tasks = [
            asyncio.create_task(self._repeat(name, job, first_ms), name=f"housekeeping: {name}")
            for name, job, first_ms in jobs
        ]

    async def stop(self) -> None:
        """Ends all jobs, and waits for what they do in threads."""
        self._cleaning.stop()
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task
        self._tasks = []
        self._worker.close()

    async def _repeat(self, name: str, job: Job, delay_ms: int) -> None:
        while True:
            if job == self.remove_files:
                await self._sleep_until_doomed(delay_ms)
            else:
                await self._clock.sleep(delay_ms / 1000)
            try:
                delay_ms = await job()
            except (StorageError, OSError) as error:
                logger.error("%s failed: %s", name, error)
                delay_ms = RETRY_MS
            except Exception:
                # A bug in one round must not end the job for the rest of the broker's life.
                logger.exception("%s failed with an internal error; please report it", name)
                delay_ms = RETRY_MS

    # -- the jobs --------------------------------------------------------------------------------------------

    async def checkpoint(self) -> int:
        await self._services.checkpoints.write()
        return self._services.config.int("log.flush.offset.checkpoint.interval.ms")

    async def retain(self) -> int:
        now_ms = self._clock.wall_ms()
        slices = Slices(self._clock)
        for log in list(self._services.logs.logs.values()):
            await self._cleaning.retain(log, now_ms)
            await slices.maybe_pause()
        async for log in self._open_due(now_ms):
            await self._cleaning.retain(log, now_ms)
        self._earlier_removal.set()
        return self._services.config.int("log.retention.check.interval.ms")

    async def remove_files(self) -> int:
        from oncelog.broker.log import pending_deletes

        logs = self._services.logs
        now_ms = self._clock.wall_ms()
        self._earlier_removal.clear()
        segment_count = 0
        waiting = []
        for log in [log for log in logs.logs.values() if log.doomed]:
            while segments := log.doomed.take(now_ms, SEGMENTS_REMOVED_AT_ONCE):
                segment_count += len(segments)
                paths = pending_deletes.retire(segments)
                await self._worker.run(partial(pending_deletes.remove_files, logs.disk, paths))
            if log.doomed.next_ms is not None:
                waiting.append(log.doomed.next_ms)
        directories = [path for when_ms, path in logs.doomed if when_ms <= now_ms]
        logs.doomed = [(when_ms, path) for when_ms, path in logs.doomed if when_ms > now_ms]
        if directories:
            await self._worker.run(partial(pending_deletes.remove_directories, logs.disk, directories))
        if segment_count or directories:
            logger.info(
                "removed the files of %d deleted segments and the directories of %d deleted partitions",
                *(segment_count, len(directories)),
            )
        waiting += [when_ms for when_ms, _ in logs.doomed]
        next_ms = min(min(waiting, default=now_ms + LOOK_MS_MAX) - now_ms, LOOK_MS_MAX)
        self._removal_ms = now_ms + next_ms
        return next_ms

    async def expire_producers(self) -> int:
        now_ms = self._clock.wall_ms()
        slices = Slices(self._clock)
        for log in list(self._services.logs.logs.values()):
            await run_steps(self._clock, self._worker, log.expire_producers(now_ms))
            await slices.maybe_pause()
        return self._services.config.int("producer.id.expiration.check.interval.ms")

    async def write_snapshots(self) -> int:
        from oncelog.broker.log import large_snapshots

        for log in list(self._services.logs.snapshots_due):
            try:
                await run_steps(self._clock, self._worker, large_snapshots.write(log))
            except (StorageError, OSError) as error:
                logger.error("the producer snapshot of %s-%d was not written: %s", log.topic, log.partition, error)
        return SNAPSHOTS_LOOK_MS

    async def flush(self) -> int:
        """Flushes logs that have waited for `flush.ms`, and in any case those with closed segments, as Kafka does.

        The small files of a partition are made anew should they be lost, and wait for its records. Once it has
        some they are flushed together, so that a partition that was written to just once does not keep its
        segment's file open for good.
        """
        now_ms = self._clock.steady_ms()
        unflushed: dict[Partition, tuple[int, int]] = {}
        look_ms = min(LOOK_MS_MAX, self._services.config.int("log.flush.scheduler.interval.ms"))
        marked = 0
        for partition in self._services.partitions:
            log = partition.log
            is_behind = log.recovery_point < log.end_offset
            if log.is_offline or not (is_behind or log.holds_files_to_sync):
                continue
            recovery_point, since_ms = self._unflushed.get(partition, (-1, 0))
            if recovery_point != log.recovery_point:
                since_ms = now_ms
            holds_files = log.holds_files_to_sync or log.dirty_paths
            if holds_files or now_ms - since_ms >= log.config.flush_ms:
                self._flusher.mark_dirty(partition)
                marked += 1
                if marked % FLUSHES_AT_ONCE == 0:
                    await self._clock.sleep(PAUSE_S)
            else:
                unflushed[partition] = (log.recovery_point, since_ms)
            look_ms = min(look_ms, log.config.flush_ms)
        self._unflushed = unflushed
        return max(look_ms, FLUSH_LOOK_MS_MIN)

    async def clean(self) -> int:
        if await self._cleaning.clean_dirtiest():
            self._earlier_removal.set()
            return 0
        return self._services.config.int("log.cleaner.backoff.ms")

    # -- how they are done -----------------------------------------------------------------------------------

    def _doomed(self, when_ms: int) -> None:
        if when_ms < self._removal_ms:
            self._earlier_removal.set()

    async def _sleep_until_doomed(self, delay_ms: int) -> None:
        """As the clock's sleep, unless something is deleted whose files are due before it ends."""
        sleep = asyncio.ensure_future(self._clock.sleep(delay_ms / 1000))
        earlier = asyncio.ensure_future(self._earlier_removal.wait())
        try:
            await asyncio.wait((sleep, earlier), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleep.cancel()
            earlier.cancel()

    async def _open_due(self, now_ms: int) -> AsyncIterator[PartitionLog]:
        """The logs whose time has come; they are looked after with the others from then on."""
        await self._look_at_unopened()
        slices = Slices(self._clock)
        while self._due and self._due[0][0] <= now_ms:
            _, topic, index = heapq.heappop(self._due)
            try:
                log = self._services.partitions.leader(topic, index).log
            except KafkaError as error:
                # A partition may be deleted, or moved to another broker, before its time has come.
                if error.code not in NOT_HERE:
                    logger.error("%s-%d: %s", topic, index, error)
            else:
                yield log
            await slices.maybe_pause()

    async def _look_at_unopened(self) -> None:
        """Finds out when unopened partitions are due: all of them at first, then those whose settings change."""
        from oncelog.broker.log.unopened_logs import NEVER

        topics, self._unknown_topics = self._unknown_topics, set()
        if topics is not None and not topics:
            return
        logs = self._services.logs
        configs: dict[str, LogConfig] = {}
        slices = Slices(self._clock)
        for topic, index in [key for key in logs.unopened() if topics is None or key[0] in topics]:
            if topic not in configs:
                configs[topic] = logs.config_for(topic)
            try:
                # In a thread, because a directory may have very many files.
                due_ms = await self._worker.run(partial(logs.due_ms, topic, index, configs[topic]))
            except FileNotFoundError:
                continue
            except OSError as error:
                logger.error("%s-%d: %s", topic, index, error)
                continue
            if due_ms < NEVER:
                heapq.heappush(self._due, (due_ms, topic, index))
            await slices.maybe_pause()

    def _image_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        if old.broker_configs is not new.broker_configs:
            self._unknown_topics = None
        elif self._unknown_topics is not None and old.topics is not new.topics:
            for name, topic in new.topics.items():
                former = old.topics.get(name)
                if former is not None and former is not topic and former.configs != topic.configs:
                    self._unknown_topics.add(name)
