"""DeleteGroups (key 42, versions 0-2): delete empty groups with their offsets (KIP-229)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.coordinator.run.group_host import settled
from oncelog.protocol.chunks import along
from oncelog.protocol.errors import KafkaError
from oncelog.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

if TYPE_CHECKING:
    from oncelog.broker.base.now import Now
    from oncelog.broker.coordinator.contract import Result
    from oncelog.broker.coordinator.group.coordinator import GroupCoordinator
    from oncelog.broker.requests.context import RequestContext

CHUNKS = (along("groups_names", "results"),)


async def handle(request: DeleteGroupsRequest, context: RequestContext) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[await _delete(group_id, context) for group_id in dict.fromkeys(request.groups_names)]
    )


def error_reply(request: DeleteGroupsRequest, error: KafkaError, _: RequestContext) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=[_failed(group_id, error) for group_id in request.groups_names])


async def _delete(group_id: str, context: RequestContext) -> DeletableGroupResult:
    def delete(coordinator: GroupCoordinator, now: Now) -> Result[DeletableGroupResult | None]:
        return coordinator.delete_group(group_id, now)

    try:
        while (deleted := await settled(context.services.groups.run(group_id, delete))) is None:
            await context.services.turns.next()
        return deleted
    except KafkaError as error:
        return _failed(group_id, error)


def _failed(group_id: str, error: KafkaError) -> DeletableGroupResult:
    return DeletableGroupResult(group_id=group_id, error_code=error.code)
