"""DescribeGroups (key 15, versions 0-6): state and members of classic groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.coordinator.run.group_host import settled
from oncelog.broker.requests.authorized_operations import GROUP_OPERATIONS
from oncelog.broker.requests.once import answer_once
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

if TYPE_CHECKING:
    from oncelog.broker.requests.context import RequestContext

NOT_FOUND_FROM = 6


async def handle(request: DescribeGroupsRequest, context: RequestContext) -> DescribeGroupsResponse:
    groups = await answer_once(request.groups, _describe, context)
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = GROUP_OPERATIONS
    return DescribeGroupsResponse(groups=groups)


def error_reply(request: DescribeGroupsRequest, error: KafkaError, _: RequestContext) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=[_failed(group_id, error) for group_id in request.groups])


async def _describe(group_id: str, context: RequestContext) -> DescribedGroup:
    try:
        described = await settled(
            context.services.groups.run(group_id, lambda coordinator, now: coordinator.describe_classic(group_id, now))
        )
    except KafkaError as error:
        return _failed(group_id, error)
    if described.error_code == ErrorCode.GROUP_ID_NOT_FOUND and context.version < NOT_FOUND_FROM:
        # To older clients a group that is not there is a dead one (KIP-1043).
        described.error_code = ErrorCode.NONE
    return described


def _failed(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(error_code=error.code, error_message=error.message or None, group_id=group_id)
