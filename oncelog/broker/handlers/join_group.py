"""JoinGroup (key 11, versions 0-9): enter the next generation of a classic group; waits for the other members."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from oncelog.broker.coordinator.group import Caller
from oncelog.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

if TYPE_CHECKING:
    from oncelog.broker.runtime.context import RequestContext

REBALANCE_TIMEOUT_FROM = 1


def handle(request: JoinGroupRequest, context: RequestContext) -> JoinGroupResponse | Awaitable[JoinGroupResponse]:
    if context.version < REBALANCE_TIMEOUT_FROM:
        request.rebalance_timeout_ms = request.session_timeout_ms
    client_id = context.client_id or ""
    caller = Caller(
        version=context.version,
        client_id=client_id,
        client_host=f"/{context.peer.peer_host}",
        new_member_id=f"{request.group_instance_id or client_id}-{uuid.uuid4()}",
    )
    return context.services.groups.run(
        request.group_id, lambda coordinator, now_ms: coordinator.join(request, caller, now_ms)
    )
