"""Group commit: one round of fsyncs, off the event loop, for all that was appended since the last round.

A partition that was appended to is marked dirty. While a round runs, further appends gather for the next one,
so under load the number of fsyncs adapts itself to what the disk can do, and every ack waits for at most two
rounds. A partition's high watermark moves only over records that a round has made durable.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol

from oncelog.broker.log.disk import StorageError

if TYPE_CHECKING:
    from oncelog.broker.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)

PARTITIONS_AT_ONCE = 256
"""A flush under way holds a few descriptors for each of its partitions."""


class Flushed(Protocol):
    """What the flusher needs of a partition."""

    @property
    def log(self) -> PartitionLog: ...

    def flushed(self) -> None:
        """The log's flushed offset has moved."""

    def failed(self, error: StorageError) -> None:
        """The log could not be made durable and is offline."""


class Flusher:
    def __init__(self) -> None:
        self._dirty: dict[Flushed, None] = {}
        self._round: asyncio.Task[None] | None = None
        self._threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix="oncelog-flush")

    def mark_dirty(self, partition: Flushed) -> None:
        self._dirty[partition] = None
        if self._round is None:
            self._round = asyncio.get_running_loop().create_task(self._run_rounds())

    async def drain(self) -> None:
        """Wait until everything appended so far is durable."""
        while self._round is not None:
            await self._round

    def close(self) -> None:
        self._threads.shutdown(wait=True)

    async def _run_rounds(self) -> None:
        try:
            while self._dirty:
                dirty, self._dirty = self._dirty, {}
                partitions = list(dirty)
                for start in range(0, len(partitions), PARTITIONS_AT_ONCE):
                    await self._flush(partitions[start : start + PARTITIONS_AT_ONCE])
        finally:
            self._round = None

    async def _flush(self, partitions: list[Flushed]) -> None:
        """Sync all the partitions at the same time; each moves on as soon as its own sync is done."""
        loop = asyncio.get_running_loop()
        started = []
        for partition in partitions:
            try:
                ticket = partition.log.begin_flush()
            except StorageError as error:
                partition.failed(error)
                continue
            if ticket is None:
                partition.flushed()
            else:
                started.append((partition, ticket, loop.run_in_executor(self._threads, ticket.run)))
        for partition, ticket, running in started:
            await running
            try:
                partition.log.complete_flush(ticket)
                partition.flushed()
            except StorageError as error:
                logger.error("%s", error)
                partition.failed(error)
            except Exception as error:
                # Whoever waits for the other partitions of the round must not wait for ever.
                logger.exception("%s: a bug of ours while flushing", partition.log.directory)
                partition.failed(StorageError(f"{partition.log.directory} could not be flushed: {error!r}"))
