"""ConsumerGroupHeartbeat (key 68, versions 0-1): join, stay in and leave a group whose broker assigns (KIP-848)."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from oncelog.broker.base.ids import random_uuid_text
from oncelog.broker.coordinator.group.common import Caller
from oncelog.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from oncelog.broker.requests.context import RequestContext


def handle(
    request: ConsumerGroupHeartbeatRequest, context: RequestContext
) -> ConsumerGroupHeartbeatResponse | Awaitable[ConsumerGroupHeartbeatResponse]:
    caller = Caller(
        version=context.version,
        client_id=context.client_id or "",
        client_host=f"/{context.peer.peer_host}",
        unique=random_uuid_text(),
    )
    return context.services.groups.run(
        request.group_id, lambda coordinator, now: coordinator.consumer_heartbeat(request, caller, now)
    )
