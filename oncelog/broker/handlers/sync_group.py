"""SyncGroup (key 14, versions 0-5): get one's assignment in a classic group; the leader hands in those of all."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from oncelog.broker.requests.context import RequestContext

PROTOCOL_REQUIRED_FROM = 5


def handle(request: SyncGroupRequest, context: RequestContext) -> SyncGroupResponse | Awaitable[SyncGroupResponse]:
    if context.version >= PROTOCOL_REQUIRED_FROM and None in (request.protocol_type, request.protocol_name):
        # Kafka requires both of those who can send them (KIP-559).
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "the protocol's type and name are required")
    return context.services.groups.run(request.group_id, lambda coordinator, now: coordinator.sync(request, now))
