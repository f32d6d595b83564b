"""A thread for slow work on files that nobody waits for."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Worker:
    """Runs one thing at a time per thread; the threads start with the first work."""

    def __init__(self, name: str, threads_max: int) -> None:
        self._threads = ThreadPoolExecutor(max_workers=threads_max, thread_name_prefix=name)

    async def run(self, function: Callable[[], T]) -> T:
        """The function's result. A caller that is cancelled still waits until the thread has let go."""
        future = asyncio.get_running_loop().run_in_executor(self._threads, function)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            await asyncio.wait([future])
            # Nobody is left to be told.
            future.exception()
            raise

    def close(self) -> None:
        self._threads.shutdown(wait=True)
