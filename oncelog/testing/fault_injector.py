"""Lets requests meet the faults that a test has injected. Only the brokers of tests have it."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
from typing import TYPE_CHECKING, Any

from oncelog.protocol.errors import KafkaError, ProtocolError

if TYPE_CHECKING:
    from oncelog.broker.handlers import Api
    from oncelog.broker.requests.context import RequestContext
    from oncelog.broker.server.interceptors import Handle
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


class FaultInjector:
    """Faults are looked at in the order in which they were injected; the first that fits decides."""

    def __init__(self, faults: list[ArmedFault]) -> None:
        self._faults = faults

    def wrap(self, api: Api, handle: Handle) -> Handle:
        if not any(fault.plan.api_key == api.key for fault in self._faults):
            return handle

        def faulty(request: Any, context: RequestContext) -> Any:
            armed = next((fault for fault in self._faults if fault.meets(api.key, context.client_id)), None)
            return handle(request, context) if armed is None else _meet(armed.plan, handle, request, context)

        return faulty


def _meet(plan: FaultPlan, handle: Handle, request: Any, context: RequestContext) -> Any:
    if plan.error is not None:
        raise KafkaError(plan.error, _CUT)
    if plan.action == "disconnect":
        raise ProtocolError(_CUT)
    if plan.action == "crash-before":
        crash()
    if plan.action == "delay":
        return _delay(plan.delay_ms, handle, request, context)
    return _lose_answer(handle(request, context), crashes=plan.action == "crash-after")


async def _delay(delay_ms: int, handle: Handle, request: Any, context: RequestContext) -> Any:
    context.keeps_frame = True
    await asyncio.sleep(delay_ms / 1000)
    return await _settled(handle(request, context))


async def _lose_answer(result: Any, *, crashes: bool) -> Any:
    """Let the request take effect first."""
    await _settled(result)
    if crashes:
        crash()
    raise ProtocolError(_CUT)


async def _settled(result: Any) -> Any:
    return await result if inspect.isawaitable(result) else result


def crash() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
