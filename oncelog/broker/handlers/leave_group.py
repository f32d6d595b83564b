"""LeaveGroup (key 13, versions 0-5): members leave a classic group, or are removed from it (KIP-345)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.coordinator.run.group_host import settled
from oncelog.protocol.chunks import along
from oncelog.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

if TYPE_CHECKING:
    from oncelog.broker.requests.context import RequestContext

BATCHED_FROM = 3

CHUNKS = (along("members"),)


async def handle(request: LeaveGroupRequest, context: RequestContext) -> LeaveGroupResponse:
    batched = context.version >= BATCHED_FROM
    members = request.members if batched else [MemberIdentity(member_id=request.member_id)]
    response = await settled(
        context.services.groups.run(
            request.group_id, lambda coordinator, now: coordinator.leave(request.group_id, members, now)
        )
    )
    if not batched:
        response.error_code = response.members[0].error_code
    return response
