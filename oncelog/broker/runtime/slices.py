"""Work over many things on the event loop, in slices that are short enough for nobody to notice."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from oncelog.broker.runtime.clock import Clock

T = TypeVar("T")

SLICE_S = 0.002
PAUSE_S = 0.020
"""A tenth of a core at most, however much there is to do."""


async def in_slices(clock: Clock, items: Iterable[T], work: Callable[[T], None]) -> None:
    """Calls `work` for each item and lets others run in between."""
    started = clock.monotonic()
    for item in items:
        work(item)
        if clock.monotonic() - started > SLICE_S:
            await clock.sleep(PAUSE_S)
            started = clock.monotonic()
