"""Heartbeat (key 12, versions 0-4): a member of a classic group is alive, and learns of a rebalance."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from oncelog.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from oncelog.broker.requests.context import RequestContext


def handle(request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse | Awaitable[HeartbeatResponse]:
    return context.services.groups.run(request.group_id, lambda coordinator, now: coordinator.heartbeat(request, now))
