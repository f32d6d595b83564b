"""JoinGroup (key 11, versions 0-9): enter the next generation of a classic group; waits for the other members."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.base.ids import random_uuid_text
from oncelog.broker.coordinator.group.common import Caller
from oncelog.broker.coordinator.run.group_host import settled
from oncelog.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

if TYPE_CHECKING:
    from oncelog.broker.requests.context import RequestContext
    from oncelog.protocol.errors import KafkaError

REBALANCE_TIMEOUT_FROM = 1
NULL_PROTOCOL_FROM = 7


async def handle(request: JoinGroupRequest, context: RequestContext) -> JoinGroupResponse:
    if context.version < REBALANCE_TIMEOUT_FROM:
        request.rebalance_timeout_ms = request.session_timeout_ms
    caller = Caller(
        version=context.version,
        client_id=context.client_id or "",
        client_host=f"/{context.peer.peer_host}",
        unique=random_uuid_text(),
    )
    response: JoinGroupResponse = await settled(
        context.services.groups.run(request.group_id, lambda coordinator, now: coordinator.join(request, caller, now))
    )
    return _adapted(response, context.version)


def error_reply(_: JoinGroupRequest, error: KafkaError, context: RequestContext) -> JoinGroupResponse:
    return _adapted(JoinGroupResponse(error_code=error.code), context.version)


def _adapted(response: JoinGroupResponse, version: int) -> JoinGroupResponse:
    """A refusal names no protocol: that is null, or empty in the versions that know no null."""
    response.protocol_name = response.protocol_name or (None if version >= NULL_PROTOCOL_FROM else "")
    return response
