"""How the process deals with the memory of a request that takes tens of megabytes for a moment."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_M_MMAP_THRESHOLD = -3
_LARGE_BLOCK_BYTES = 128 * 1024

_pause_count = 0


@contextmanager
def collector_paused() -> Iterator[None]:
    """Keep Python's cyclic garbage collector from running.

    It visits every object there is, on the thread that happens to allocate. With the hundred thousand objects of a
    large request that takes 50 ms or more, again and again while they are made, and none of them is part of a cycle.
    """
    global _pause_count
    if _pause_count == 0 and not gc.isenabled():
        yield
        return
    _pause_count += 1
    gc.disable()
    try:
        yield
    finally:
        _pause_count -= 1
        if _pause_count == 0:
            gc.enable()


def return_large_blocks() -> None:
    """Have the C library give every large block back to the system as soon as it is freed.

    glibc raises its own limit with every large block that it sees, and keeps such blocks on its heap from then on.
    """
    import ctypes

    # Other C libraries do not have it, nor that habit.
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK_BYTES)
