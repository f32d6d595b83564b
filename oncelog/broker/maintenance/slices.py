"""Long work on the event loop, in slices that are short enough for nobody to notice."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from oncelog.broker.base.clock import Clock
    from oncelog.broker.base.worker import Worker
    from oncelog.broker.log.steps import Steps

T = TypeVar("T")

SLICE_S = 0.002
PAUSE_S = 0.020
"""A tenth of a core at most, however much there is to do."""


class Slices:
    """The turns of one job on the event loop."""

    __slots__ = ("_began", "_clock")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.monotonic()

    def begin(self) -> None:
        """The job was waiting for something else; its slice begins now."""
        self._began = self._clock.monotonic()

    async def maybe_pause(self) -> None:
        """Let others run if the slice is over."""
        if self._clock.monotonic() - self._began > SLICE_S:
            await self._clock.sleep(PAUSE_S)
            self.begin()


async def run_steps(clock: Clock, worker: Worker, steps: Steps[T]) -> T:
    """Do the work of a log that is written in steps; `worker` waits for the disk."""
    slices = Slices(clock)
    try:
        step = next(steps)
        while True:
            await slices.maybe_pause()
            try:
                if step is not None:
                    await worker.run(step)
                    slices.begin()
            except OSError as error:
                step = steps.throw(error)
            else:
                step = next(steps)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        steps.close()
