"""Requests with thousands of elements, beside the requests of other clients.

The event loop decodes and handles a request in one piece only up to `Api.elements_at_once` elements. A larger one is
decoded in a thread. Its handler then gets it in chunks, where the API can be cut (`CHUNKS` in the handler's module),
one chunk in each turn of the loop; other handlers pause by themselves (`Pace`). The answer is encoded in the thread.
One large request is decoded and handled at a time, so that many of them do not take the memory of all. While one waits,
as for a disk or a coordinator, the others go on.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from oncelog.broker.base.eager import begin
from oncelog.broker.base.memory import collector_paused, pause_collector, resume_collector, return_large_blocks
from oncelog.broker.base.worker import Worker
from oncelog.broker.requests.context import NO_REPLY
from oncelog.protocol.chunks import ChunkPaths, ChunkSize, cut, join
from oncelog.protocol.codec import Parts, decode, encode_into
from oncelog.protocol.errors import ProtocolError, TooManyElementsError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from oncelog.broker.base.turns import Turns
    from oncelog.broker.requests.context import RequestContext
    from oncelog.broker.server.interceptors import Handle
    from oncelog.protocol.schema import Message

    Refuse = Callable[[Message, Exception], "Message | None"]
    """Makes the API's error answer; None if the connection is closed instead."""

T = TypeVar("T")

CHUNK_SECONDS = 0.002
"""The chunks of a request grow or shrink until one takes about this long."""
CHUNK_ELEMENTS_FIRST = 32
CHUNK_ELEMENTS_MAX = 200
DROPPED_AT_ONCE = 500


class LargeRequests:
    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._one_at_a_time = asyncio.Lock()
        self._worker = Worker("oncelog-request", threads_max=1)
        self._is_prepared = False
        self._is_closed = False

    def close(self) -> None:
        self._is_closed = True
        self._worker.close()

    async def answer(
        self,
        request_class: type[Message],
        frame: memoryview,
        position: int,
        elements_max: int,
        paths: tuple[ChunkPaths, ...],
        handle: Handle,
        intercept: Callable[[Handle], Handle],
        refuse: Refuse,
        context: RequestContext,
    ) -> Message | None:
        async with _Slot(self._one_at_a_time) as slot:
            if not self._is_prepared:
                self._is_prepared = True
                await self._run(return_large_blocks)
            request = await self._decode(request_class, frame, position, context.version, elements_max)
            path = next((path for path in paths if getattr(request, path.request[0])), None)
            if path is not None:
                in_chunks = partial(self._answer_in_chunks, slot, path, handle, refuse)
                response = await _settled(_begin(intercept(in_chunks), refuse, request, context), refuse, request)
                await self._run(partial(_drop, request))
                return response
            result = _begin(intercept(handle), refuse, request, context)
        # From here on it only waits, or pauses by itself: another one may begin.
        return await _settled(result, refuse, request)

    async def encode(self, message: Message, version: int, header: bytes) -> Parts:
        parts: Parts = [header]
        with collector_paused():
            await self._run(partial(_encode, message, version, parts))
        return parts

    async def _decode(
        self, request_class: type[Message], frame: memoryview, position: int, version: int, elements_max: int
    ) -> Message:
        try:
            return await self._run(partial(decode, request_class, version, frame, position, elements_max))
        except TooManyElementsError:
            raise ProtocolError(
                f"a {request_class.__name__} has more than {elements_max} topics, partitions or other elements; "
                "the client must send several smaller ones"
            ) from None

    async def _run(self, work: Callable[[], T]) -> T:
        if self._is_closed:
            raise ProtocolError("the broker is stopping")
        return await self._worker.run(work)

    async def _answer_in_chunks(
        self,
        slot: _Slot,
        path: ChunkPaths,
        handle: Handle,
        refuse: Refuse,
        request: Message,
        context: RequestContext,
    ) -> Message | None:
        response: Message | None = None
        size = ChunkSize(CHUNK_ELEMENTS_FIRST)
        for chunk, seam in cut(request, path.request, size):
            if response is not None:
                await self._turns.next()
            started = time.perf_counter()
            result = _begin(handle, refuse, chunk, context)
            size.elements = _next_size(size.elements, time.perf_counter() - started)
            if inspect.isawaitable(result):
                result = await slot.outside(_settled(result, refuse, chunk))
            answer: Message | None = result
            if answer is None:
                return None
            if response is None:
                response = answer
            elif answer is not NO_REPLY:
                join(response, answer, path.response, seam)
        return response


class _Slot:
    """A place for one request at a time, which it leaves while it waits for something else. Whoever has it makes and
    drops very many objects, so the garbage collector is paused."""

    def __init__(self, lock: asyncio.Lock) -> None:
        self._lock = lock
        self._is_held = False

    async def __aenter__(self) -> _Slot:
        await self._enter()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._leave()

    async def outside(self, awaitable: Awaitable[T]) -> T:
        self._leave()
        try:
            return await awaitable
        finally:
            await self._enter()

    async def _enter(self) -> None:
        await self._lock.acquire()
        self._is_held = True
        pause_collector()

    def _leave(self) -> None:
        if self._is_held:
            self._is_held = False
            resume_collector()
            self._lock.release()


def _encode(message: Message, version: int, parts: Parts) -> None:
    encode_into(message, version, parts)
    _drop(message)


def _drop(message: Message) -> None:
    """Free the elements of a message that nobody needs any more, in slices: to free all of them at once would take tens
    of milliseconds without giving up the GIL."""
    for name in message._specs:
        elements = getattr(message, name)
        if isinstance(elements, list):
            while elements:
                del elements[-DROPPED_AT_ONCE:]


def _begin(handle: Handle, refuse: Refuse, request: Message, context: RequestContext) -> Any:
    try:
        result = handle(request, context)
        return begin(result) if inspect.iscoroutine(result) else result
    except Exception as error:
        return refuse(request, error)


async def _settled(result: Any, refuse: Refuse, request: Message) -> Message | None:
    try:
        answer: Message | None = await result if inspect.isawaitable(result) else result
    except Exception as error:
        return refuse(request, error)
    return answer


def _next_size(elements: int, seconds: float) -> int:
    if seconds < CHUNK_SECONDS / 2:
        return min(elements * 2, CHUNK_ELEMENTS_MAX)
    return max(1, elements // 2) if seconds > CHUNK_SECONDS * 2 else elements
