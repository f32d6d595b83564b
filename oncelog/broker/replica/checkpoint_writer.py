"""Writes checkpoints in a thread, one round after the other, for housekeeping and for requests that wait for them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from oncelog.broker.base.worker import Worker

if TYPE_CHECKING:
    from oncelog.broker.log.log_manager import LogManager


class CheckpointWriter:
    def __init__(self, logs: LogManager) -> None:
        self._logs = logs
        self._worker = Worker("oncelog-checkpoints", threads_max=1)
        self._writing = asyncio.Lock()

    async def write(self) -> None:
        """The checkpoints on disk say on return what the logs said at the call. StorageError if that failed."""
        async with self._writing:
            ticket = self._logs.begin_checkpoints()
            await self._worker.run(ticket.run)
            self._logs.complete_checkpoints(ticket)

    def close(self) -> None:
        self._worker.close()
