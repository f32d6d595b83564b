"""OffsetDelete (key 47, version 0): forget a group's positions in topics that it does not consume (KIP-496)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.coordinator.run.group_host import settled
from oncelog.protocol.chunks import along
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from oncelog.broker.requests.context import RequestContext

CHUNKS = (along("topics.partitions"),)


async def handle(request: OffsetDeleteRequest, context: RequestContext) -> OffsetDeleteResponse:
    image = context.services.metadata.image
    response = OffsetDeleteResponse()
    accepted: list[OffsetDeleteResponsePartition] = []
    partitions: list[tuple[str, int]] = []
    for topic in request.topics:
        found = image.topic(topic.name)
        partition_count = len(found.partitions) if found else 0
        answers = []
        for partition in topic.partitions:
            answer = OffsetDeleteResponsePartition(partition_index=partition.partition_index)
            answers.append(answer)
            if 0 <= partition.partition_index < partition_count:
                accepted.append(answer)
                partitions.append((topic.name, partition.partition_index))
            else:
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if answers:
            response.topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=answers))
    codes = await settled(
        context.services.groups.run(
            request.group_id,
            lambda coordinator, now: coordinator.delete_offsets(request.group_id, partitions, now),
        )
    )
    for answer, code in zip(accepted, codes, strict=True):
        answer.error_code = code
    return response
