"""OffsetFetch (key 9, versions 1-10): read back positions; several groups from v8 (KIP-709), topic ids from v10."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from oncelog.broker.coordinator.group.committed_offsets import CommittedOffset
from oncelog.broker.coordinator.group.common import Committer
from oncelog.broker.coordinator.group.offsets import FetchedOffset, FetchedTopic, TopicSelection
from oncelog.broker.coordinator.run.group_host import settled
from oncelog.protocol.chunks import along
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from oncelog.broker.requests.context import RequestContext

GROUP_ERROR_FROM = 2
BATCHED_FROM = 8
TOPIC_IDS_FROM = 10
_NO_OFFSET = CommittedOffset(-1)

CHUNKS = (
    along("groups.topics.partition_indexes", "groups.topics.partitions"),
    along("topics.partition_indexes", "topics.partitions"),
)


async def handle(request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
    if context.version >= BATCHED_FROM:
        return OffsetFetchResponse(
            groups=[await _fetch_group(group, request.require_stable, context) for group in request.groups]
        )
    selections = _selections(request)
    reader = Committer(request.group_id)
    fetched = await _fetch(reader, selections, request.require_stable, context)
    return OffsetFetchResponse(topics=[_topic(topic) for topic in fetched])


def error_reply(request: OffsetFetchRequest, error: KafkaError, context: RequestContext) -> OffsetFetchResponse:
    """The first versions have no place for an error but the partitions."""
    if context.version >= BATCHED_FROM:
        return OffsetFetchResponse(groups=[_failed(group, error) for group in request.groups])
    if context.version >= GROUP_ERROR_FROM:
        return OffsetFetchResponse(error_code=error.code)
    return OffsetFetchResponse(
        topics=[
            _topic(
                FetchedTopic(
                    topic.topic, [FetchedOffset(partition, None, error.code) for partition in topic.partitions]
                )
            )
            for topic in _selections(request) or ()
        ]
    )


def _selections(request: OffsetFetchRequest) -> list[TopicSelection] | None:
    if request.topics is None:
        return None
    return [TopicSelection(topic.name, topic.partition_indexes) for topic in request.topics]


async def _fetch(
    reader: Committer, topics: Sequence[TopicSelection] | None, require_stable: bool, context: RequestContext
) -> list[FetchedTopic]:
    return await settled(
        context.services.groups.run(
            reader.group_id,
            lambda coordinator, now: coordinator.fetch_offsets(reader, topics, now, require_stable=require_stable),
        )
    )


async def _fetch_group(
    group: OffsetFetchRequestGroup, require_stable: bool, context: RequestContext
) -> OffsetFetchResponseGroup:
    reader = Committer(group.group_id, group.member_epoch, group.member_id or "")
    by_id = context.version >= TOPIC_IDS_FROM
    response = OffsetFetchResponseGroup(group_id=group.group_id)
    image = context.services.metadata.image
    selections: list[TopicSelection] | None = None
    absent: list[OffsetFetchResponseTopics] = []
    if group.topics is not None:
        selections = []
        for topic in group.topics:
            found = image.topic_by_id(topic.topic_id) if by_id else None
            if by_id and found is None:
                unknown = [
                    FetchedOffset(partition, None, ErrorCode.UNKNOWN_TOPIC_ID) for partition in topic.partition_indexes
                ]
                absent.append(_group_topic("", topic.topic_id, unknown))
            else:
                name = found.name if found else topic.name
                selections.append(TopicSelection(name, topic.partition_indexes, topic.topic_id))
    try:
        fetched = await _fetch(reader, selections, require_stable, context)
    except KafkaError as error:
        return _failed(group, error)
    for answered in fetched:
        named = image.topic(answered.topic) if by_id else None
        if named is not None:
            response.topics.append(_group_topic("", named.id, answered.offsets))
        elif not by_id:
            response.topics.append(_group_topic(answered.topic, bytes(16), answered.offsets))
    # As in Kafka, topics that do not exist come last.
    response.topics += absent
    return response


def _failed(group: OffsetFetchRequestGroup, error: KafkaError) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(group_id=group.group_id, error_code=error.code)


def _topic(topic: FetchedTopic) -> OffsetFetchResponseTopic:
    partitions = []
    for partition, committed, code in topic.offsets:
        offset = committed or _NO_OFFSET
        partitions.append(
            OffsetFetchResponsePartition(
                partition_index=partition,
                committed_offset=offset.offset,
                committed_leader_epoch=offset.leader_epoch,
                metadata=offset.metadata,
                error_code=code,
            )
        )
    return OffsetFetchResponseTopic(name=topic.topic, partitions=partitions)


def _group_topic(name: str, topic_id: bytes, offsets: Sequence[FetchedOffset]) -> OffsetFetchResponseTopics:
    partitions = []
    for partition, committed, code in offsets:
        offset = committed or _NO_OFFSET
        partitions.append(
            OffsetFetchResponsePartitions(
                partition_index=partition,
                committed_offset=offset.offset,
                committed_leader_epoch=offset.leader_epoch,
                metadata=offset.metadata,
                error_code=code,
            )
        )
    return OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=partitions)
