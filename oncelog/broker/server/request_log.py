"""One line in the log for each request, at the level DEBUG of this module's logger.

The handlers of a dispatcher are wrapped while the level is on, and only then; so requests that are not logged cost
nothing. A line has what a request was, whose, how large, how long it took until its answer was ready, and every
error code in the answer.
"""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from oncelog.broker.base.immediate_future import Promise
from oncelog.broker.requests.context import NO_REPLY, RequestContext
from oncelog.protocol.codec import Parts, encode_into
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.schema import Message, Struct

if TYPE_CHECKING:
    from oncelog.broker.handlers import Api

logger = logging.getLogger(__name__)

Handle = Callable[[Any, RequestContext], Any]


def log_requests(api: Api, handle: Handle) -> Handle:
    """The handler, with a line in the log when its answer is ready."""

    def logged(request: Message, context: RequestContext) -> Any:
        entry = _Entry(api, request, context)
        try:
            result = handle(request, context)
        except BaseException as error:
            entry.failed(error)
            raise
        if inspect.iscoroutine(result):
            return entry.wait_for(result)
        if isinstance(result, Promise):
            result.then(entry.settled)
        else:
            entry.answered(result)
        return result

    return logged


class _Entry:
    def __init__(self, api: Api, request: Message, context: RequestContext) -> None:
        self._name = api.key.camel
        self._context = context
        self._request_bytes = _size_bytes(request, context.version)
        self._started = time.perf_counter()

    async def wait_for(self, coroutine: Any) -> Any:
        try:
            answer = await coroutine
        except BaseException as error:
            self.failed(error)
            raise
        self.answered(answer)
        return answer

    def settled(self, promise: Promise[Any]) -> None:
        error = promise.exception()
        if error is None:
            self.answered(promise.result())
        else:
            self.failed(error)

    def answered(self, answer: Any) -> None:
        if answer is NO_REPLY:
            self._write("none expected", 0)
            return
        codes = dict.fromkeys(_error_names(answer))
        self._write(",".join(codes) or "none", _size_bytes(answer, self._context.version))

    def failed(self, error: BaseException) -> None:
        if isinstance(error, KafkaError):
            self._write(f"{error.code.name} ({error.message})", 0)
        else:
            self._write(repr(error), 0)

    def _write(self, error: str, response_bytes: int) -> None:
        context = self._context
        logger.debug(
            "request %s v%d: peer=%s client_id=%r request_bytes=%d response_bytes=%d duration_ms=%.2f error=%s",
            self._name,
            context.version,
            context.peer.peer_address,
            context.client_id,
            self._request_bytes,
            response_bytes,
            (time.perf_counter() - self._started) * 1000,
            error,
        )


def _size_bytes(message: Message, version: int) -> int:
    """Of the body, without the header."""
    parts: Parts = []
    encode_into(message, version, parts)
    return sum(map(len, parts))


def _error_names(value: Any) -> Iterator[str]:
    if isinstance(value, Struct):
        for name in value._specs:
            field = getattr(value, name)
            if name == "error_code" and field:
                yield ErrorCode(field).name
            elif isinstance(field, Struct | list):
                yield from _error_names(field)
    elif isinstance(value, list):
        for item in value:
            yield from _error_names(item)
