"""How the process deals with memory: of requests that take tens of megabytes for a moment, and of state that grows."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_M_MMAP_THRESHOLD = -3
_LARGE_BLOCK_BYTES = 128 * 1024
_FULL_COLLECTION = 2
LONG_COLLECTION_SECONDS = 0.01

_pause_count = 0
_was_enabled = False


def pause_collector() -> None:
    """Keep Python's cyclic garbage collector from running until `resume_collector` was called as often.

    It visits every object there is, on the thread that happens to allocate. With the hundred thousand objects of a
    large request that takes 50 ms or more, again and again while they are made, and none of them is part of a cycle.
    """
    global _pause_count, _was_enabled
    if _pause_count == 0:
        _was_enabled = gc.isenabled()
        gc.disable()
    _pause_count += 1


def resume_collector() -> None:
    global _pause_count
    _pause_count -= 1
    if _pause_count == 0 and _was_enabled:
        gc.enable()


@contextmanager
def collector_paused() -> Iterator[None]:
    pause_collector()
    try:
        yield
    finally:
        resume_collector()


def return_large_blocks() -> None:
    """Have the C library give every large block back to the system as soon as it is freed.

    glibc raises its own limit with every large block that it sees, and keeps such blocks on its heap from then on.
    """
    import ctypes

    # Other C libraries do not have it, nor that habit.
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK_BYTES)


class LongCollections:
    """Keeps full garbage collections short while the broker's state grows.

    A full collection visits every object that lives: with tens of thousands of open partitions that takes hundreds of
    milliseconds, and finds next to nothing. Whatever survives one that took long is therefore not visited again
    (`gc.freeze`). It is still freed when nobody refers to it any more; only a cycle of such objects would stay, and
    what a broker holds for long (partitions, groups, transactions) is none.
    """

    def __init__(self) -> None:
        self._started = 0.0

    def start(self) -> None:
        gc.freeze()
        gc.callbacks.append(self._collecting)

    def stop(self) -> None:
        gc.callbacks.remove(self._collecting)

    def _collecting(self, phase: str, info: dict[str, int]) -> None:
        if info["generation"] < _FULL_COLLECTION:
            return
        if phase == "start":
            self._started = time.thread_time()
        elif time.thread_time() - self._started > LONG_COLLECTION_SECONDS:
            gc.freeze()
