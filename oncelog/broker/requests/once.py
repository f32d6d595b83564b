"""Answers about things that clients name, each told once, however often a request names it.

Apache Kafka answers as often as it is asked, which lets a request of a few kilobytes have an answer of a gigabyte. Its
clients send sets of names, so they cannot tell the difference.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import TypeVar

from oncelog.broker.requests.context import Pace, RequestContext

K = TypeVar("K", bound=Hashable)
R = TypeVar("R")


async def answer_once(
    names: Iterable[K], answer: Callable[[K, RequestContext], Awaitable[R]], context: RequestContext
) -> list[R]:
    """In the order of the request; other requests have their turn in between."""
    pace = Pace(context)
    answers: list[R] = []
    for name in dict.fromkeys(names):
        answers.append(await answer(name, context))
        if pace.is_over:
            await pace.rest()
    return answers
