"""Retention and compaction on a running broker. Both take segments out of logs, but not out of the same log at once.

Compaction chooses the dirtiest log and cleans it in a thread, segment by segment; only the exchange of the segments
happens on the event loop.

Python runs one thread at a time and lets a busy one keep its turn for 5 ms, which every request would feel. So
the cleaning thread steps aside of its own accord, far more often than that.
"""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from oncelog.broker.log.disk import StorageError
from oncelog.broker.maintenance.slices import Slices, run_steps
from oncelog.protocol.errors import KafkaError, ProtocolError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from oncelog.broker.base.worker import Worker
    from oncelog.broker.log.cleaner import CleanedGroup
    from oncelog.broker.log.compaction import CleaningPlan
    from oncelog.broker.log.offset_map import OffsetMap
    from oncelog.broker.log.partition_log import PartitionLog
    from oncelog.broker.log.steps import Steps
    from oncelog.broker.replica.flusher import Flusher
    from oncelog.broker.requests.services import Services

logger = logging.getLogger(__name__)

T = TypeVar("T")

TURN_S = 0.001
ASIDE_S = 0.0001
RETRY_MS = 600_000
"""After a failure of the disk, such as a full one; a log that is damaged is not tried again."""


class CleaningStopped(Exception):
    """The broker stops, or the log is gone."""


class LogCleaning:
    def __init__(
        self,
        services: Services,
        worker: Worker,
        flusher: Flusher,
        checkpoint: Callable[[], Awaitable[None]],
    ) -> None:
        self._services = services
        self._worker = worker
        self._flusher = flusher
        self._checkpoint = checkpoint
        self._not_before_ms: dict[PartitionLog, int] = {}
        self._stopped = False
        self._busy: set[PartitionLog] = set()
        """Logs that segments are being taken out of."""

    def stop(self) -> None:
        """Makes a cleaning that runs end soon."""
        self._stopped = True

    async def clean_dirtiest(self) -> bool:
        """One cleaning of the log that needs it most; False if none does."""
        from oncelog.broker.log.compaction import plan_cleaning

        log = await self._choose()
        if log is None or log in self._busy:
            return False
        self._busy.add(log)
        try:
            plan = await self._run(plan_cleaning(log, self._last_clean_offset(log), self._services.clock.wall_ms()))
            if plan is not None:
                await self._clean(plan)
        except CleaningStopped:
            pass
        except (StorageError, ProtocolError) as error:
            logger.error("%s-%d is not compacted any more: %s", log.topic, log.partition, error)
            self._not_before_ms[log] = 2**63
        except OSError as error:
            # Of a log that was deleted meanwhile, the files are rightly gone.
            if not log.is_offline:
                logger.error("%s-%d could not be compacted: %s", log.topic, log.partition, error)
                self._not_before_ms[log] = self._services.clock.steady_ms() + RETRY_MS
        finally:
            self._busy.discard(log)
        return True

    async def retain(self, log: PartitionLog, now_ms: int) -> None:
        """Take out what is too old or too much; not now if the log is being cleaned."""
        from oncelog.broker.log.retention import retain

        if log in self._busy or log.is_offline:
            return
        self._busy.add(log)
        try:
            removed = await self._run(retain(log, now_ms))
        except (StorageError, KafkaError, OSError) as error:
            # One log that fails must not keep the others from being looked after. A deleted one has not failed.
            if self._services.logs.logs.get((log.topic, log.partition)) is log:
                logger.error("%s-%d: %s", log.topic, log.partition, error)
            return
        finally:
            self._busy.discard(log)
        if removed:
            size_bytes = sum(segment.size_bytes for segment in removed)
            logger.info(
                "%s-%d: retention deletes %d segments with %d bytes; it starts at offset %d now",
                *(log.topic, log.partition, len(removed), size_bytes, log.log_start_offset),
            )

    async def _choose(self) -> PartitionLog | None:
        """Looks at the compacted logs, and takes out what retention does not want any more on the way."""
        services = self._services
        now_ms = services.clock.wall_ms()
        logs = services.logs.logs
        steady_ms = services.clock.steady_ms()
        self._not_before_ms = {
            log: when_ms for log, when_ms in self._not_before_ms.items() if when_ms > steady_ms and not log.is_offline
        }
        dirtiest: PartitionLog | None = None
        largest_ratio = 0.0
        slices = Slices(services.clock)
        for log in [log for log in logs.values() if log.config.cleanup_compact]:
            await self.retain(log, now_ms)
            ratio = await self._dirty_ratio(log, now_ms)
            if ratio > largest_ratio:
                dirtiest, largest_ratio = log, ratio
            await slices.maybe_pause()
        return dirtiest

    async def _dirty_ratio(self, log: PartitionLog, now_ms: int) -> float:
        from oncelog.broker.log.compaction import dirty_ratio

        if log.is_offline or log in self._busy or log in self._not_before_ms or len(log.segments.items) == 1:
            return 0.0
        self._busy.add(log)
        try:
            return await self._run(dirty_ratio(log, self._last_clean_offset(log), now_ms))
        except (StorageError, OSError) as error:
            logger.error("%s-%d: %s", log.topic, log.partition, error)
            return 0.0
        finally:
            self._busy.discard(log)

    def _last_clean_offset(self, log: PartitionLog) -> int | None:
        return self._services.logs.cleaner_offsets.get((log.topic, log.partition))

    async def _run(self, steps: Steps[T]) -> T:
        return await run_steps(self._services.clock, self._worker, steps)

    async def _clean(self, plan: CleaningPlan) -> None:
        # Only a broker that really compacts pays for loading what it takes.
        from oncelog.broker.log.cleaner import clean
        from oncelog.broker.log.offset_map import OffsetMap

        config = self._services.config
        if not await self._make_durable(plan):
            return
        offset_map = OffsetMap(
            config.int("log.cleaner.dedupe.buffer.size"), config.float("log.cleaner.io.buffer.load.factor")
        )
        pace = _Pace(self, plan.log, config.float("log.cleaner.io.max.bytes.per.second"))
        groups = clean(plan, offset_map, pace.advance)
        while (group := await self._worker.run(partial(_next, groups))) is not None:
            if not await self._swap(plan, group):
                return
        self._note_cleaned(plan, offset_map)

    async def _make_durable(self, plan: CleaningPlan) -> bool:
        """A gap that cleaning leaves must never be met by a recovery that looks for torn writes."""
        log = plan.log
        if log.recovery_point < plan.end_offset:
            try:
                self._flusher.mark_dirty(self._services.partitions.leader(log.topic, log.partition))
            except KafkaError:
                return False
            await self._flusher.drain()
        if log.checkpointed_recovery_point < plan.end_offset:
            await self._checkpoint()
        return not log.is_offline and log.checkpointed_recovery_point >= plan.end_offset

    async def _swap(self, plan: CleaningPlan, group: CleanedGroup) -> bool:
        if group.cleaned is None:
            return True
        from oncelog.broker.log.compaction import is_unchanged
        from oncelog.broker.log.segment_swap import replace

        if not is_unchanged(plan, group.segments):
            group.cleaned.discard()
            return False
        return await self._run(replace(plan.log, group.segments, group.cleaned, self._services.clock.wall_ms()))

    def _note_cleaned(self, plan: CleaningPlan, offset_map: OffsetMap) -> None:
        log = plan.log
        logs = self._services.logs
        key = (log.topic, log.partition)
        if logs.logs.get(key) is log:
            end_offset = logs.cleaner_offsets[key] = offset_map.latest_offset + 1
            logger.info("%s-%d is compacted up to offset %d", *key, end_offset)

    @property
    def is_stopped(self) -> bool:
        return self._stopped


def _next(groups: Iterator[CleanedGroup]) -> CleanedGroup | None:
    return next(groups, None)


class _Pace:
    """How fast the cleaning thread may go; all of it runs in that thread."""

    def __init__(self, cleaning: LogCleaning, log: PartitionLog, bytes_per_second: float) -> None:
        self._cleaning = cleaning
        self._log = log
        self._seconds_per_byte = 1 / bytes_per_second
        self._turn_ends = time.monotonic() + TURN_S
        self._allowed_at = time.monotonic()

    def advance(self, size_bytes: int) -> None:
        now = time.monotonic()
        self._allowed_at = max(self._allowed_at, now - 1) + size_bytes * self._seconds_per_byte
        if now < self._turn_ends and now >= self._allowed_at:
            return
        while not self._is_over():
            time.sleep(max(ASIDE_S, min(0.1, self._allowed_at - time.monotonic())))
            if time.monotonic() >= self._allowed_at:
                self._turn_ends = time.monotonic() + TURN_S
                return
        raise CleaningStopped

    def _is_over(self) -> bool:
        return self._cleaning.is_stopped or self._log.is_offline
