"""Long work on a log, in steps for a caller that has other things to do as well.

Such work is a generator. It yields None where the caller may turn to something else for a while, or a function that
waits for the disk. The caller calls that before it goes on, in a thread of its choice, and throws its OSError into the
generator.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

T = TypeVar("T")

Steps = Generator[Callable[[], None] | None, None, T]


def run(steps: Steps[T]) -> T:
    """All steps at once, for callers that may block."""
    try:
        step = next(steps)
        while True:
            try:
                if step is not None:
                    step()
            except OSError as error:
                step = steps.throw(error)
            else:
                step = next(steps)
    except StopIteration as end:
        result: T = end.value
        return result
