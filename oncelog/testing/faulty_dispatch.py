"""A dispatcher that lets requests meet the faults that a test has injected. No other broker has it."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

from oncelog.broker.requests.context import RequestContext
from oncelog.broker.server.dispatch import Dispatcher, Reply
from oncelog.protocol.codec import decode
from oncelog.protocol.errors import ErrorCode, KafkaError, ProtocolError
from oncelog.protocol.headers import decode_request_rest, decode_request_start, encode_response_header

if TYPE_CHECKING:
    from oncelog.broker.server.connection import Connection
    from oncelog.broker.server.dispatch import _Route
    from oncelog.testing.faults import FaultPlan

_CUT = "a fault was injected"


class ArmedFault:
    def __init__(self, plan: FaultPlan) -> None:
        self.plan = plan
        self.seen = 0
        self.hits = 0

    def meets(self, api_key: int, client_id: str | None) -> bool:
        """Counts the request if it is of the kind; whether it is to be hit."""
        plan = self.plan
        if api_key != plan.api_key or (plan.client_id is not None and client_id != plan.client_id):
            return False
        self.seen += 1
        if not plan.hits(self.seen):
            return False
        self.hits += 1
        return True


class FaultyDispatcher(Dispatcher):
    """Faults are looked at in the order in which they were injected; the first that fits decides."""

    faults: list[ArmedFault]

    def dispatch(self, frame: memoryview, connection: Connection) -> Reply:
        if not self.faults:
            return super().dispatch(frame, connection)
        key, version, correlation_id = decode_request_start(frame)
        route = self._routes.get(key) or self._load(key)
        flexible = version >= route.flexible_from
        client_id, position = decode_request_rest(frame, flexible)
        armed = next((fault for fault in self.faults if fault.meets(key, client_id)), None)
        if armed is None:
            return super().dispatch(frame, connection)
        plan = armed.plan
        if plan.error is not None:
            context = RequestContext(self._services, version, client_id, connection)
            header = encode_response_header(key, correlation_id, flexible)
            return self._refuse(route, frame, position, header, context, plan.error)
        if plan.action == "disconnect":
            raise ProtocolError(_CUT)
        if plan.action == "crash-before":
            crash()
        if plan.action == "delay":
            return self._delay(bytes(frame), connection, plan.delay_ms)
        return _end_with(super().dispatch(frame, connection), crashes=plan.action == "crash-after")

    def _refuse(
        self,
        route: _Route,
        frame: memoryview,
        position: int,
        header: bytes,
        context: RequestContext,
        code: ErrorCode,
    ) -> Reply:
        request = decode(route.request, context.version, frame, position)
        reply = Reply(pipelined=False)
        message = self._error_message(route, request, context, KafkaError(code, _CUT), reply)
        self._finish(message, header, context, reply)
        return reply

    def _delay(self, frame: bytes, connection: Connection, delay_ms: int) -> Reply:
        late = Reply(pipelined=False)

        def arrive() -> None:
            if connection.closed:
                return
            try:
                reply = super(FaultyDispatcher, self).dispatch(memoryview(bytearray(frame)), connection)
            except ProtocolError as error:
                late.fail(str(error))
                return
            _forward(reply, late)

        asyncio.get_running_loop().call_later(delay_ms / 1000, arrive)
        return late


def _forward(reply: Reply, late: Reply) -> None:
    late.promise = reply.promise

    def done(settled: Reply) -> None:
        if settled.failure is not None:
            late.fail(settled.failure)
        else:
            late.finish(settled.parts)

    if reply.done:
        done(reply)
    else:
        reply.on_done = done


def _end_with(reply: Reply, *, crashes: bool) -> Reply:
    """Let the request take effect, and lose its answer."""
    lost = Reply(reply.pipelined)
    lost.keeps_frame = reply.keeps_frame
    lost.promise = reply.promise

    def done(_: Reply) -> None:
        if crashes:
            crash()
        lost.fail(_CUT)

    if reply.done:
        done(reply)
    else:
        reply.on_done = done
    return lost


def crash() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
