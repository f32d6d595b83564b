"""ListGroups (key 16, versions 0-5): the groups that this broker coordinates, by state and type (KIP-518)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.coordinator.contract import Result
from oncelog.broker.coordinator.run.group_host import settled
from oncelog.broker.requests.context import Pace, RequestContext
from oncelog.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from oncelog.broker.base.now import Now
    from oncelog.broker.coordinator.group.coordinator import GroupCoordinator


async def handle(request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
    states = frozenset(state.lower() for state in request.states_filter)
    types = frozenset(type_.lower() for type_ in request.types_filter)

    def list_shard(coordinator: GroupCoordinator, _: Now) -> Result[list[ListedGroup]]:
        return Result(coordinator.list_groups(states, types))

    response = ListGroupsResponse()
    pace = Pace(context)
    for shard in context.services.groups.shards:
        await shard.loading()
        groups: list[ListedGroup] = await settled(shard.run(list_shard))
        response.groups += groups
        if pace.is_over:
            await pace.rest()
    return response
