"""FindCoordinator (key 10, versions 0-6): the broker in charge of groups or transactional ids (KIP-699)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.protocol.chunks import along
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

if TYPE_CHECKING:
    from oncelog.broker.requests.context import RequestContext

BATCHED_FROM = 4
_GROUP, _TRANSACTION = 0, 1
_NO_NODE, _NO_PORT = -1, -1

CHUNKS = (along("coordinator_keys", "coordinators"),)


async def handle(request: FindCoordinatorRequest, context: RequestContext) -> FindCoordinatorResponse:
    keys = request.coordinator_keys if context.version >= BATCHED_FROM else [request.key]
    found = [await _find(request.key_type, key, context) for key in keys]
    if context.version >= BATCHED_FROM:
        return FindCoordinatorResponse(coordinators=found)
    (only,) = found
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message or ErrorCode(only.error_code).name,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )


async def _find(key_type: int, key: str, context: RequestContext) -> Coordinator:
    try:
        node_id, host, port = await _coordinator_of(key_type, key, context)
    except KafkaError as error:
        return Coordinator(key=key, node_id=_NO_NODE, port=_NO_PORT, error_code=error.code, error_message=error.message)
    return Coordinator(key=key, node_id=node_id, host=host, port=port)


async def _coordinator_of(key_type: int, key: str, context: RequestContext) -> tuple[int, str, int]:
    services = context.services
    if key_type == _GROUP:
        leader = await services.groups.leader_of(key)
    elif key_type == _TRANSACTION:
        leader = await services.transactions.leader_of(key)
    else:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"there are no coordinators of type {key_type}")
    broker = services.metadata.image.brokers.get(leader)
    endpoint = broker.listeners.get(context.peer.listener_name) if broker else None
    if endpoint is None:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"broker {leader} cannot be reached from here")
    return leader, *endpoint
