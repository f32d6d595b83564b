"""From a frame to a handler and back: one look-up, one version check, one mapping of errors.

Handlers and message declarations are imported when their API is first asked for, so that a broker starts
without loading all of them.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from oncelog.broker.base.eager import begin, spawn
from oncelog.broker.base.immediate_future import Promise
from oncelog.broker.handlers import APIS, Api
from oncelog.broker.requests.context import NO_REPLY, RequestContext
from oncelog.broker.server.interceptors import RequestLog, intercept
from oncelog.broker.server.large_requests import LargeRequests
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.codec import Parts, decode, encode_into
from oncelog.protocol.errors import ErrorCode, KafkaError, ProtocolError, TooManyElementsError
from oncelog.protocol.headers import decode_request_rest, decode_request_start, encode_response_header
from oncelog.protocol.messages import request_class, response_class
from oncelog.protocol.schema import NO_VERSIONS, VERSION_MAX

if TYPE_CHECKING:
    from oncelog.broker.requests.services import Services
    from oncelog.broker.server.connection import Connection
    from oncelog.broker.server.interceptors import Handle, Interceptor
    from oncelog.protocol.schema import Message

logger = logging.getLogger(__name__)

ErrorReply = Callable[[Any, KafkaError, RequestContext], "Message"]


class Reply:
    """The answer to one request, now or later."""

    __slots__ = (
        "abandonable",
        "done",
        "failure",
        "keeps_frame",
        "on_done",
        "parts",
        "pipelined",
        "promise",
        "throttle_time_ms",
    )

    def __init__(self, pipelined: bool, abandonable: bool = False) -> None:
        self.done = False
        self.abandonable = abandonable
        self.parts: Parts | None = None
        """None when done means that nothing is sent (acks=0)."""
        self.failure: str | None = None
        """Why the connection is to be closed instead of answered."""
        self.pipelined = pipelined
        self.keeps_frame = False
        """Whether the handler goes on to use the memory of the request's frame."""
        self.throttle_time_ms = 0
        self.on_done: Callable[[Reply], None] | None = None
        self.promise: Promise[Any] | None = None

    def finish(self, parts: Parts | None) -> None:
        self.parts = parts
        self._set_done()

    def fail(self, reason: str) -> None:
        self.failure = reason
        self._set_done()

    def cancel(self) -> None:
        """The peer is gone: whatever the handler waits for need not come."""
        self.on_done = None
        if self.promise:
            self.promise.cancel()

    def _set_done(self) -> None:
        self.done = True
        if self.on_done:
            self.on_done(self)


class _Route:
    """An API with its handler and its messages loaded."""

    __slots__ = (
        "api",
        "chunk_paths",
        "error_reply",
        "flexible_from",
        "handle",
        "handler",
        "intercept",
        "request",
        "response",
    )

    def __init__(self, api: Api, interceptors: Sequence[Interceptor]) -> None:
        module = import_module(f"oncelog.broker.handlers.{api.key.stem}")
        self.api = api
        self.chunk_paths = getattr(module, "CHUNKS", ())
        self.request = request_class(api.key)
        self.response = response_class(api.key)
        flexible = self.request.FLEXIBLE
        self.flexible_from = flexible.first if flexible != NO_VERSIONS else VERSION_MAX + 1
        self.handler: Handle = module.handle
        self.intercept = partial(intercept, interceptors, api)
        self.handle = self.intercept(self.handler)
        self.error_reply: ErrorReply = getattr(module, "error_reply", self._top_level_error)

    def _top_level_error(self, _: Message, error: KafkaError, __: RequestContext) -> Message:
        """An answer that says only what went wrong, for the APIs that have such a field."""
        names = {field.name for field in self.response.fields()}
        if "error_code" not in names:
            raise AssertionError(f"{self.api.key.camel} needs an error_reply of its own") from error
        values: dict[str, Any] = {"error_code": error.code}
        if "error_message" in names:
            values["error_message"] = error.message
        return self.response(**values)


class Dispatcher:
    def __init__(self, services: Services, interceptors: Sequence[Interceptor] = ()) -> None:
        self._services = services
        self._interceptors = (*interceptors, RequestLog())
        self._routes: dict[int, _Route] = {}
        self._waiting: set[Promise[Any]] = set()
        self._logs_requests = RequestLog.is_on()
        self._large = LargeRequests(services.turns)
        self.turns = services.turns
        self.frame_size_bytes_max = services.config.int("socket.request.max.bytes")

    def dispatch(self, frame: memoryview, connection: Connection) -> Reply:
        """Start to handle a request. ProtocolError means: close without an answer."""
        key, version, correlation_id = decode_request_start(frame)
        route = self._routes.get(key) or self._load(key)
        if not route.api.version_min <= version <= route.api.version_max:
            if key != ApiKey.API_VERSIONS:
                raise ProtocolError(f"{route.api.key.camel} has no version {version} here")
            decode_request_rest(frame, version >= route.flexible_from)
            return self._unsupported_api_versions(route, correlation_id, connection)
        flexible = version >= route.flexible_from
        client_id, position = decode_request_rest(frame, flexible)
        context = RequestContext(self._services, version, client_id, connection)
        header = encode_response_header(key, correlation_id, flexible)
        try:
            request = decode(route.request, version, frame, position, route.api.elements_at_once)
        except TooManyElementsError:
            connection.keep_frame()
            return self._dispatch_large(route, frame, position, header, context)
        reply = Reply(route.api.pipelined, route.api.abandonable)
        try:
            result = route.handle(request, context)
            if type(result) is not route.response and inspect.iscoroutine(result):
                result = begin(result)
        except Exception as error:
            result = self._error_message(route, request, context, error, reply)
        if type(result) is not route.response and isinstance(result, Promise):
            self._wait(result, route, request, context, header, reply)
        else:
            self._finish(result, header, context, reply)
        reply.throttle_time_ms, context.throttle_time_ms = context.throttle_time_ms, 0
        if context.keeps_frame:
            reply.pipelined = False
            reply.keeps_frame = True
        return reply

    def stop(self) -> None:
        """Give up what still waits, also for peers that are gone."""
        for waiting in list(self._waiting):
            waiting.cancel()
        self._large.close()

    def _dispatch_large(
        self, route: _Route, frame: memoryview, position: int, header: bytes, context: RequestContext
    ) -> Reply:
        context.is_large = True
        reply = Reply(pipelined=False, abandonable=route.api.abandonable)

        def refuse(request: Message, error: Exception) -> Message | None:
            return self._error_message(route, request, context, error, reply)

        answer = self._large.answer(
            *(route.request, frame, position, route.api.elements_max, route.chunk_paths),
            *(route.handler, route.intercept, refuse, context),
        )
        self._wait(spawn(answer), route, route.request(), context, header, reply)
        return reply

    def _load(self, key: int) -> _Route:
        api = APIS.get(key)
        if api is None:
            raise ProtocolError(f"no API has the key {key} here")
        self._routes[key] = route = _Route(api, self._interceptors)
        return route

    def follow_log_level(self) -> None:
        """Called now and then, since the level of a logger can change while the broker runs (KIP-412)."""
        enabled = RequestLog.is_on()
        if enabled != self._logs_requests:
            self._logs_requests = enabled
            self.reload()

    def reload(self) -> None:
        """Wrap the handlers anew, since an interceptor has been turned on or off."""
        self._routes.clear()

    def _wait(
        self,
        promise: Promise[Any],
        route: _Route,
        request: Message,
        context: RequestContext,
        header: bytes,
        reply: Reply,
    ) -> None:
        def settled(_: Promise[Any]) -> None:
            self._waiting.discard(promise)
            try:
                value = promise.result()
            except asyncio.CancelledError:
                reply.fail(f"{route.api.key.camel} was given up")
                return
            except Exception as error:
                value = self._error_message(route, request, context, error, reply)
            reply.throttle_time_ms = context.throttle_time_ms
            self._finish(value, header, context, reply)

        reply.promise = promise
        self._waiting.add(promise)
        promise.then(settled)

    def _finish(self, result: Any, header: bytes, context: RequestContext, reply: Reply) -> None:
        if reply.failure is not None:
            return
        if result is NO_REPLY:
            reply.finish(None)
            return
        if context.is_large:
            self._finish_large(result, header, context, reply)
            return
        parts: Parts = [header]
        try:
            encode_into(result, context.version, parts)
        except Exception as error:
            self._encoding_failed(result, error, reply)
        else:
            reply.finish(parts)

    def _finish_large(self, result: Message, header: bytes, context: RequestContext, reply: Reply) -> None:
        def encoded(promise: Promise[Parts]) -> None:
            self._waiting.discard(promise)
            try:
                reply.finish(promise.result())
            except (asyncio.CancelledError, ProtocolError) as stopping:
                reply.fail(str(stopping))
            except Exception as error:
                self._encoding_failed(result, error, reply)

        promise = spawn(self._large.encode(result, context.version, header))
        self._waiting.add(promise)
        promise.then(encoded)

    def _encoding_failed(self, result: Message, error: Exception, reply: Reply) -> None:
        """Raised further, the error would reach nobody who could tell the client."""
        logger.error("%s cannot be encoded: %r", type(result).__name__, error, exc_info=error)
        reply.fail("the broker failed; see its log")

    def _error_message(
        self, route: _Route, request: Message, context: RequestContext, error: Exception, reply: Reply
    ) -> Message | None:
        """A refusal becomes the API's error answer; an internal error is logged and closes the connection."""
        if isinstance(error, ProtocolError):
            reply.fail(str(error))
            return None
        if not isinstance(error, KafkaError):
            logger.error("%s failed: %r", route.api.key.camel, error, exc_info=error)
            error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the broker failed; see its log")
        try:
            return route.error_reply(request, error, context)
        except ProtocolError as closing:
            reply.fail(str(closing))
        except AssertionError as missing:
            logger.error("%s", missing)
            reply.fail(f"{route.api.key.camel} failed")
        return None

    def _unsupported_api_versions(self, route: _Route, correlation_id: int, connection: Connection) -> Reply:
        """An ApiVersions of the future is answered in version 0, so that its client can step down (KIP-511)."""
        context = RequestContext(self._services, 0, None, connection)
        reply = Reply(pipelined=False)
        error = KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        message = route.error_reply(route.request(), error, context)
        self._finish(message, encode_response_header(ApiKey.API_VERSIONS, correlation_id, False), context, reply)
        return reply
