"""OffsetFetch (key 9, versions 1-10): read back positions; several groups from v8 (KIP-709), topic ids from v10."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

from oncelog.broker.coordinator.group.committed_offsets import CommittedOffset
from oncelog.broker.coordinator.group.common import Committer
from oncelog.broker.coordinator.group.offsets import FetchedOffset, FetchedTopic, TopicSelection
from oncelog.broker.coordinator.run.group_host import settled
from oncelog.broker.requests.context import Pace, RequestContext
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
    from collections.abc import AsyncIterator, Iterator, Sequence

    from oncelog.broker.base.now import Now
    from oncelog.broker.coordinator.contract import Result
    from oncelog.broker.coordinator.group.coordinator import GroupCoordinator

P = TypeVar("P", OffsetFetchResponsePartition, OffsetFetchResponsePartitions)

GROUP_ERROR_FROM = 2
BATCHED_FROM = 8
TOPIC_IDS_FROM = 10
_NO_OFFSET = CommittedOffset(-1)

PARTITIONS_AT_ONCE = 500


async def handle(request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
    pace = Pace(context)
    if context.version >= BATCHED_FROM:
        groups = [await _fetch_group(group, request.require_stable, context, pace) for group in _asked_once(request)]
        return OffsetFetchResponse(groups=groups)
    response = OffsetFetchResponse()
    reader = Committer(request.group_id)
    async for answered, is_more in _fetch(reader, _selections(request), request.require_stable, context, pace):
        partitions = _partitions(OffsetFetchResponsePartition, answered)
        if is_more:
            response.topics[-1].partitions += partitions
        else:
            response.topics.append(OffsetFetchResponseTopic(name=answered.topic, partitions=partitions))
    return response


def _asked_once(request: OffsetFetchRequest) -> list[OffsetFetchRequestGroup]:
    """A group may have very many offsets. However often a request asks for all of them, they are told once."""
    asked: dict[tuple[str, int], OffsetFetchRequestGroup] = {}
    for index, group in enumerate(request.groups):
        asked.setdefault((group.group_id, -1 if group.topics is None else index), group)
    return list(asked.values())


def error_reply(request: OffsetFetchRequest, error: KafkaError, context: RequestContext) -> OffsetFetchResponse:
    """The first versions have no place for an error but the partitions."""
    if context.version >= BATCHED_FROM:
        return OffsetFetchResponse(groups=[_failed(group, error) for group in request.groups])
    if context.version >= GROUP_ERROR_FROM:
        return OffsetFetchResponse(error_code=error.code)
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name=topic.topic,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=partition,
                        committed_offset=-1,
                        committed_leader_epoch=-1,
                        metadata="",
                        error_code=error.code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in _selections(request) or ()
        ]
    )


def _selections(request: OffsetFetchRequest) -> list[TopicSelection] | None:
    if request.topics is None:
        return None
    return [TopicSelection(topic.name, topic.partition_indexes) for topic in request.topics]


async def _fetch(
    reader: Committer,
    selections: Sequence[TopicSelection] | None,
    require_stable: bool,
    context: RequestContext,
    pace: Pace,
) -> AsyncIterator[tuple[FetchedTopic, bool]]:
    """The offsets of a group in slices, each with whether it goes on with the topic of the last one."""
    groups = context.services.groups
    if selections is None:
        selections = await settled(
            groups.run(reader.group_id, lambda coordinator, _: coordinator.committed_partitions(reader.group_id))
        )
    for slice_, is_more in _slices(selections):
        fetched = await settled(
            groups.run(
                reader.group_id,
                partial(_fetch_slice, reader=reader, selections=slice_, require_stable=require_stable),
            )
        )
        for topic in fetched:
            yield topic, is_more
        if pace.is_over:
            await pace.rest()


def _fetch_slice(
    coordinator: GroupCoordinator,
    now: Now,
    *,
    reader: Committer,
    selections: Sequence[TopicSelection],
    require_stable: bool,
) -> Result[list[FetchedTopic]]:
    return coordinator.fetch_offsets(reader, selections, now, require_stable=require_stable)


def _slices(selections: Sequence[TopicSelection]) -> Iterator[tuple[Sequence[TopicSelection], bool]]:
    """At least one, since the coordinator has to say whether the group may be asked."""
    if sum(1 + len(selection.partitions) for selection in selections) <= PARTITIONS_AT_ONCE:
        yield selections, False
        return
    for selection in selections:
        for start in range(0, max(1, len(selection.partitions)), PARTITIONS_AT_ONCE):
            partitions = selection.partitions[start : start + PARTITIONS_AT_ONCE]
            yield (selection._replace(partitions=partitions),), start > 0


async def _fetch_group(
    group: OffsetFetchRequestGroup, require_stable: bool, context: RequestContext, pace: Pace
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
                partitions = _partitions(OffsetFetchResponsePartitions, FetchedTopic("", unknown))
                absent.append(OffsetFetchResponseTopics(topic_id=topic.topic_id, partitions=partitions))
            else:
                name = found.name if found else topic.name
                selections.append(TopicSelection(name, topic.partition_indexes, topic.topic_id))
            if pace.is_over:
                await pace.rest()
    try:
        async for answered, is_more in _fetch(reader, selections, require_stable, context, pace):
            named = image.topic(answered.topic) if by_id else None
            if by_id and named is None:
                continue
            partitions = _partitions(OffsetFetchResponsePartitions, answered)
            if is_more:
                response.topics[-1].partitions += partitions
            else:
                name, topic_id = ("", named.id) if named else (answered.topic, bytes(16))
                response.topics.append(OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=partitions))
    except KafkaError as error:
        return _failed(group, error)
    # As in Kafka, topics that do not exist come last.
    response.topics += absent
    return response


def _failed(group: OffsetFetchRequestGroup, error: KafkaError) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(group_id=group.group_id, error_code=error.code)


def _partitions(answer: type[P], topic: FetchedTopic) -> list[P]:
    return [
        answer(
            partition_index=partition,
            committed_offset=(committed or _NO_OFFSET).offset,
            committed_leader_epoch=(committed or _NO_OFFSET).leader_epoch,
            metadata=(committed or _NO_OFFSET).metadata,
            error_code=code,
        )
        for partition, committed, code in topic.offsets
    ]
