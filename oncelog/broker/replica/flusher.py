"""Group commit: one round of fsyncs for all that was appended since the last round.

A partition that was appended to is marked dirty. While a round runs, further appends gather for the next one,
so under load the number of fsyncs adapts itself to what the disk can do, and every ack waits for at most two
rounds. What nobody waits for (acks=1, the record that a transaction is complete) is put off for a moment: it would
keep what somebody waits for out of the round, and may be synced with the next records of its log. A partition's
high watermark moves only over records that a round has made durable.

Threads do the syncing, so that the event loop does not wait for a disk that takes its time. But to hand a sync to a
thread and to be woken by it takes as long as the sync itself where the disk is fast. So a round of one or two logs
with no more than a large request each is done by the loop while such rounds take it no longer than a few requests do
(`sync_latency.py`). A request that comes alone is synced where it stands (`sync_now`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from itertools import takewhile
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Protocol

from oncelog.broker.base.completions import Completions
from oncelog.broker.log.disk import StorageError
from oncelog.broker.replica.sync_latency import DiskPace

if TYPE_CHECKING:
    from oncelog.broker.log.flush import FlushTicket
    from oncelog.broker.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)

PARTITIONS_AT_ONCE = 256
"""A flush under way holds a few descriptors for each of its partitions."""
THREADS_MAX = 8
"""More than cores, because the disk takes together what is synced at the same time: 64 files take 8 threads a quarter
less time than 4."""
PUT_OFF_SECONDS = 0.005
TIMER_SECONDS = 0.001
"""How exact the timers of an event loop are: what is due so soon would have it turn without a pause."""
SHORT_BYTES = 2 * 1024 * 1024
"""One or two requests' records: more of them are left to threads."""
LARGE_BYTES = 256 * 1024
"""From here on the disk's bandwidth counts, of which small rounds say nothing: such rounds have a pace of their own."""
AT_ONCE_BYTES_MAX = 64 * 1024
AT_ONCE_IN_A_ROW_MAX = 2
"""As many as one request may need, one after the other and of different logs: a transaction's record, and its batch."""
SLEPT_SECONDS = 20e-6
ON_LOOP_LOGS_MAX = 2
"""A record and its transaction's; more, one after the other, take longer than threads do together."""


class Flushed(Protocol):
    """What the flusher needs of a partition."""

    @property
    def log(self) -> PartitionLog: ...

    def flushed(self) -> None:
        """The log's flushed offset has moved."""

    def go_offline(self, error: StorageError) -> None:
        """The log could not be made durable."""


_Job = tuple[Flushed, "FlushTicket"]
_Done = tuple[Flushed, "FlushTicket", BaseException | None]


class Flusher:
    """Threads of its own and one wake-up for all that is done: an executor with its futures costs twice the CPU."""

    def __init__(self, pace: DiskPace | None = None, pace_of_large: DiskPace | None = None) -> None:
        self.completions = Completions()
        """Where partitions hand in what waits for a sync."""
        self._pace = pace or DiskPace()
        self._pace_of_large = pace_of_large or DiskPace()
        self._put_off: dict[Flushed, float] = {}
        """Until when each may wait for somebody else's round, the first first."""
        self._awaited: dict[Flushed, None] = {}
        self._under_way_count = 0
        self._scheduled = False
        self._put_off_timer: asyncio.TimerHandle | None = None
        self._drained: asyncio.Future[None] | None = None
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._done: deque[_Done] = deque()
        self._waking = False
        self._threads: list[Thread] = []
        self._lacks_descriptors = False
        """Whether the last ticket did: said once, not for every one."""
        self._at_once_in_a_row = 0
        self._synced_at_once: Flushed | None = None
        self._synced_at = 0.0
        self._synced_at_cpu = 0.0
        """When the last round was over, on the clock and in what the loop has worked."""

    def mark_dirty(self, partition: Flushed, *, awaited: bool = False) -> None:
        """The partition's log has to be made durable, soon or at once."""
        if awaited:
            self._put_off.pop(partition, None)
            self._awaited[partition] = None
            self._schedule()
        elif partition not in self._awaited:
            loop = asyncio.get_running_loop()
            self._put_off.setdefault(partition, loop.time() + PUT_OFF_SECONDS)
            if self._put_off_timer is None:
                self._put_off_timer = loop.call_later(PUT_OFF_SECONDS, self._hurry_due)

    def hurry(self, partition: Flushed) -> None:
        """Somebody waits for a partition now; nothing happens if it is not dirty."""
        if partition in self._put_off:
            self.mark_dirty(partition, awaited=True)

    def sync_now(self, partition: Flushed) -> bool:
        """Make a partition durable here and now, if nobody else would gain by a round that gathers what comes.

        That is so if the loop has slept since the last sync: then all that came was done, and this is the first
        request since. Its answer needs no waiting at all.
        """
        awaited = self._awaited
        if self._under_way_count or (awaited and (len(awaited) > 1 or partition not in awaited)):
            return False
        tail_bytes = partition.log.unsynced_tail_bytes
        if not 0 <= tail_bytes <= AT_ONCE_BYTES_MAX or not self._pace.is_fast:
            return False
        began = time.perf_counter()
        if began - self._synced_at - (time.thread_time() - self._synced_at_cpu) > SLEPT_SECONDS:
            self._at_once_in_a_row = 0
            self._synced_at_once = None
        if self._at_once_in_a_row >= AT_ONCE_IN_A_ROW_MAX or partition is self._synced_at_once:
            return False
        self._put_off.pop(partition, None)
        awaited.pop(partition, None)
        error = _flush_tail(partition)
        self._pace.note(time.perf_counter() - began, tail_bytes)
        self._note_sync(self._at_once_in_a_row + 1)
        self._synced_at_once = partition
        self._tell(partition, error)
        return error is None

    async def drain(self) -> None:
        """Wait until everything appended so far is durable."""
        self._hurry_all()
        while self._is_busy:
            if self._drained is None:
                self._drained = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._drained)

    def close(self) -> None:
        if self._put_off_timer is not None:
            self._put_off_timer.cancel()
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    @property
    def _is_busy(self) -> bool:
        return bool(self._under_way_count or self._awaited)

    def _schedule(self) -> None:
        """All that is appended in this turn of the event loop belongs to one round."""
        if not self._scheduled and not self._under_way_count:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._begin_round)

    def _hurry_due(self) -> None:
        """Those that have waited long enough. What was put off later may still be part of somebody's round."""
        loop = asyncio.get_running_loop()
        now = loop.time() + TIMER_SECONDS
        due = list(takewhile(lambda partition: self._put_off[partition] <= now, self._put_off))
        for partition in due:
            self.mark_dirty(partition, awaited=True)
        self._put_off_timer = None
        if self._put_off:
            self._put_off_timer = loop.call_at(next(iter(self._put_off.values())), self._hurry_due)

    def _hurry_all(self) -> None:
        for partition in list(self._put_off):
            self.mark_dirty(partition, awaited=True)

    def _begin_round(self) -> None:
        """Sync the partitions at the same time; each moves on as soon as its own sync is done."""
        if not self._awaited:
            # They were synced at once meanwhile.
            self._scheduled = False
            self._end_round()
            return
        if len(self._awaited) <= ON_LOOP_LOGS_MAX and self._sync_on_loop():
            return
        jobs: list[_Job] = []
        done: list[tuple[Flushed, BaseException | None]] = []
        for partition in list(self._awaited)[:PARTITIONS_AT_ONCE]:
            del self._awaited[partition]
            try:
                ticket = partition.log.begin_flush(ahead=True)
            except Exception as error:
                done.append((partition, error))
                continue
            if ticket is None:
                done.append((partition, None))
            else:
                jobs.append((partition, ticket))
        self._under_way_count += len(jobs)
        self._scheduled = False
        self.completions.hold()
        try:
            for partition, failure in done:
                self._tell(partition, failure)
            if jobs:
                self._hand_over(jobs)
            else:
                self._end_round()
        finally:
            self.completions.run()

    def _sync_on_loop(self) -> bool:
        """Whether the whole round is done, because it is short and the disk fast enough."""
        size_bytes = 0
        for partition in self._awaited:
            tail_bytes = partition.log.unsynced_tail_bytes
            if not 0 <= tail_bytes <= SHORT_BYTES:
                return False
            size_bytes += tail_bytes
        pace = self._pace_of_large if size_bytes >= LARGE_BYTES else self._pace
        if not pace.allows_loop():
            return False
        partitions, self._awaited = self._awaited, {}
        self._under_way_count += len(partitions)
        began = time.perf_counter()
        done = [(partition, _flush_tail(partition)) for partition in partitions]
        pace.note(time.perf_counter() - began, size_bytes)
        self._scheduled = False
        self._note_sync(AT_ONCE_IN_A_ROW_MAX)
        self.completions.hold()
        for partition, error in done:
            self._under_way_count -= 1
            self._tell(partition, error)
        self._end_round()
        self.completions.run()
        return True

    def _tell(self, partition: Flushed, error: BaseException | None) -> None:
        try:
            if error is not None:
                raise error
            partition.flushed()
        except Exception as failure:
            _fail(partition, failure)
        except BaseException as end:
            self._give_up(end)
            raise

    def _note_sync(self, at_once_in_a_row: int) -> None:
        self._at_once_in_a_row = at_once_in_a_row
        self._synced_at = time.perf_counter()
        self._synced_at_cpu = time.thread_time()

    def _hand_over(self, jobs: list[_Job]) -> None:
        for job in jobs:
            self._jobs.put(job)
        loop = asyncio.get_running_loop()
        while len(self._threads) < min(self._under_way_count, THREADS_MAX):
            thread = Thread(target=self._sync_jobs, args=(loop,), name=f"oncelog-flush-{len(self._threads)}")
            try:
                thread.start()
            except RuntimeError as error:
                logger.error("a thread to sync files cannot be started, raise the limit of processes: %s", error)
                break
            self._threads.append(thread)
        if not self._threads:
            self._sync_queued(loop)

    def _sync_queued(self, loop: asyncio.AbstractEventLoop) -> None:
        """Without threads the event loop syncs by itself."""
        while not self._jobs.empty():
            if (job := self._jobs.get()) is not None:
                self._done.append(_sync(job))
        loop.call_soon(self._take_done)

    def _sync_jobs(self, loop: asyncio.AbstractEventLoop) -> None:
        """What a thread does. Nobody is left to be told once the loop is closed."""
        while (job := self._jobs.get()) is not None:
            self._done.append(_sync(job))
            if not self._waking:
                self._waking = True
                try:
                    loop.call_soon_threadsafe(self._take_done)
                except RuntimeError:
                    return

    def _take_done(self) -> None:
        # Before looking, so that what is done after the look wakes us again.
        self._waking = False
        self._note_sync(AT_ONCE_IN_A_ROW_MAX)
        self.completions.hold()
        while self._done:
            partition, ticket, error = self._done.popleft()
            self._under_way_count -= 1
            try:
                self._complete(partition, ticket, error)
            except BaseException as end:
                self._give_up(end)
                raise
        self._end_round()
        self.completions.run()

    def _complete(self, partition: Flushed, ticket: FlushTicket, error: BaseException | None) -> None:
        try:
            if error is not None:
                raise error
            if partition.log.ticket is not ticket:
                # Its topic was deleted meanwhile, and whoever waited was told.
                return
            partition.log.complete_flush(ticket)
            if ticket.lacks_descriptors:
                self._try_again(partition)
            else:
                self._lacks_descriptors = False
                partition.flushed()
        except Exception as failure:
            _fail(partition, failure)

    def _try_again(self, partition: Flushed) -> None:
        """In a moment, in which others may give back a descriptor; acks wait for it."""
        if not self._lacks_descriptors:
            self._lacks_descriptors = True
            logger.error(
                "%s waits for a file descriptor to be flushed: all that the system allows are in use; "
                "raise the limit (ulimit -n) or lower max.connections",
                partition.log.directory,
            )
        self.mark_dirty(partition)

    def _give_up(self, end: BaseException) -> None:
        """The process is about to end; nothing may be acked any more."""
        if self._drained is not None:
            self._drained.set_exception(end)
            self._drained = None

    def _end_round(self) -> None:
        if self._under_way_count:
            return
        if self._awaited:
            self._schedule()
        elif self._drained is not None:
            self._drained.set_result(None)
            self._drained = None


def _flush_tail(partition: Flushed) -> BaseException | None:
    try:
        partition.log.flush_tail()
    except BaseException as error:
        return error
    return None


def _fail(partition: Flushed, error: Exception) -> None:
    """Whoever waits for the other partitions of the round must not wait for ever."""
    if isinstance(error, StorageError):
        logger.error("%s", error)
    else:
        logger.error("%s: internal error while flushing; please report it", partition.log.directory, exc_info=error)
        error = StorageError(f"{partition.log.directory} could not be flushed: {error!r}")
    partition.go_offline(error)


def _sync(job: _Job) -> _Done:
    try:
        job[1].run()
    except BaseException as error:
        return *job, error
    return *job, None
