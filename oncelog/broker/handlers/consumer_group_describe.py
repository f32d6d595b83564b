"""ConsumerGroupDescribe (key 69, versions 0-1): state, members and assignments of consumer groups (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.coordinator.run.group_host import settled
from oncelog.broker.requests.authorized_operations import GROUP_OPERATIONS
from oncelog.broker.requests.once import answer_once
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

if TYPE_CHECKING:
    from oncelog.broker.requests.context import RequestContext


async def handle(request: ConsumerGroupDescribeRequest, context: RequestContext) -> ConsumerGroupDescribeResponse:
    groups = await answer_once(request.group_ids, _describe, context)
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = GROUP_OPERATIONS
    return ConsumerGroupDescribeResponse(groups=groups)


def error_reply(
    request: ConsumerGroupDescribeRequest, error: KafkaError, _: RequestContext
) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(groups=[_failed(group_id, error) for group_id in request.group_ids])


async def _describe(group_id: str, context: RequestContext) -> DescribedGroup:
    try:
        return await settled(
            context.services.groups.run(group_id, lambda coordinator, now: coordinator.describe_consumer(group_id, now))
        )
    except KafkaError as error:
        return _failed(group_id, error)


def _failed(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(error_code=error.code, error_message=error.message or None, group_id=group_id)
