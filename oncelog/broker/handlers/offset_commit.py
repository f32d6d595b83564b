"""OffsetCommit (key 8, versions 2-10): store a group's positions; topics by id from v10."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.coordinator.group.common import Committer
from oncelog.broker.coordinator.group.offsets import OffsetEntry
from oncelog.broker.coordinator.run.group_host import settled
from oncelog.protocol.chunks import along
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from oncelog.broker.metadata.image import TopicImage
    from oncelog.broker.requests.context import RequestContext

TOPIC_IDS_FROM = 10
RETENTION_MS_MAX = 2**62

CHUNKS = (along("topics.partitions"),)


async def handle(request: OffsetCommitRequest, context: RequestContext) -> OffsetCommitResponse:
    """Partitions that do not exist are refused one by one; the rest goes to the group's coordinator."""
    response = OffsetCommitResponse()
    entries: list[OffsetEntry] = []
    accepted: list[OffsetCommitResponsePartition] = []
    for topic in request.topics:
        image, unknown = _find_topic(topic, context)
        answers = []
        for partition in topic.partitions:
            answer = OffsetCommitResponsePartition(partition_index=partition.partition_index)
            answers.append(answer)
            if image is None:
                answer.error_code = unknown
            elif not 0 <= partition.partition_index < len(image.partitions):
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                accepted.append(answer)
                entries.append(
                    OffsetEntry(
                        image.name,
                        partition.partition_index,
                        partition.committed_offset,
                        partition.committed_leader_epoch,
                        partition.committed_metadata,
                        image.id,
                    )
                )
        if answers:
            answered = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=answers)
            response.topics.append(answered)
    if entries:
        for answer, code in zip(accepted, await _commit(request, entries, context), strict=True):
            answer.error_code = code
    return response


def error_reply(request: OffsetCommitRequest, error: KafkaError, _: RequestContext) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error.code)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _find_topic(topic: OffsetCommitRequestTopic, context: RequestContext) -> tuple[TopicImage | None, ErrorCode]:
    """The topic, or else the code that says that it does not exist."""
    image = context.services.metadata.image
    if context.version >= TOPIC_IDS_FROM:
        return image.topic_by_id(topic.topic_id), ErrorCode.UNKNOWN_TOPIC_ID
    return image.topic(topic.name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def _commit(request: OffsetCommitRequest, entries: list[OffsetEntry], context: RequestContext) -> list[ErrorCode]:
    committer = Committer(
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        context.version,
    )
    # The sum with the time of day must fit into the 64 bits of its record.
    retention_ms = min(request.retention_time_ms, RETENTION_MS_MAX)
    try:
        return await settled(
            context.services.groups.run(
                request.group_id,
                lambda coordinator, now: coordinator.commit_offsets(committer, entries, now, retention_ms=retention_ms),
            )
        )
    except KafkaError as error:
        return [error.code] * len(entries)
