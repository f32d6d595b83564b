"""OffsetForLeaderEpoch (key 23, versions 2-4): where a leader epoch ended, to find where logs part.

KIP-101 for followers, KIP-320 for consumers, who learn from it that what they read was truncated.
"""

from __future__ import annotations

from oncelog.broker.requests.context import RequestContext
from oncelog.protocol.chunks import along
from oncelog.protocol.errors import KafkaError
from oncelog.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

CHUNKS = (along("topics.partitions"),)


def handle(request: OffsetForLeaderEpochRequest, context: RequestContext) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_answer(topic.topic, asked, context) for asked in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def error_reply(
    request: OffsetForLeaderEpochRequest, error: KafkaError, _: RequestContext
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    EpochEndOffset(partition=asked.partition, error_code=error.code) for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _answer(topic: str, asked: OffsetForLeaderPartition, context: RequestContext) -> EpochEndOffset:
    try:
        partition = context.services.partitions.leader(topic, asked.partition)
        partition.check_leader_epoch(asked.current_leader_epoch)
        partition.check_leader()
    except KafkaError as error:
        return EpochEndOffset(partition=asked.partition, error_code=error.code)
    epoch, end_offset = partition.end_of_epoch(asked.leader_epoch)
    return EpochEndOffset(partition=asked.partition, leader_epoch=epoch, end_offset=end_offset)
