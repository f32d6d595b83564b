"""ListOffsets (key 2, versions 1-11): the offset of a timestamp, or of an end of a partition.

Timestamps below zero are questions of their own: -1 latest, -2 earliest, -3 the record with the highest
timestamp (KIP-734), -4 earliest local and -5 latest tiered (KIP-405, KIP-1005; nothing is tiered here).
"""

from __future__ import annotations

from collections import Counter

from oncelog.broker.log.disk import StorageError
from oncelog.broker.replica.partition import Partition
from oncelog.broker.requests.context import RequestContext
from oncelog.protocol.chunks import along
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = (
    -1,
    -2,
    -3,
    -4,
    -5,
    -6,
)
_SINCE = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
_DEBUGGING_REPLICA_ID = -2
_ISOLATION_LEVELS = (0, 1)

CHUNKS = (along("topics.partitions"),)


def handle(request: ListOffsetsRequest, context: RequestContext) -> ListOffsetsResponse:
    counts = Counter((topic.name, asked.partition_index) for topic in request.topics for asked in topic.partitions)
    answers: dict[str, dict[int, ListOffsetsPartitionResponse]] = {}
    for topic in request.topics:
        for asked in topic.partitions:
            try:
                if counts[topic.name, asked.partition_index] > 1:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "a partition stands twice in one request")
                answer = _answer(request, topic.name, asked, context)
            except KafkaError as error:
                answer = ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=error.code)
            answers.setdefault(topic.name, {})[asked.partition_index] = answer
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(name=name, partitions=list(partitions.values()))
            for name, partitions in answers.items()
        ]
    )


def error_reply(request: ListOffsetsRequest, error: KafkaError, _: RequestContext) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=error.code)
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _answer(
    request: ListOffsetsRequest, topic: str, asked: ListOffsetsPartition, context: RequestContext
) -> ListOffsetsPartitionResponse:
    if request.isolation_level not in _ISOLATION_LEVELS or request.replica_id < _DEBUGGING_REPLICA_ID:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if asked.timestamp < EARLIEST_PENDING_UPLOAD or context.version < _SINCE.get(asked.timestamp, 0):
        # A question of a later protocol: this code has newer clients do without it.
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    partition = context.services.partitions.leader(topic, asked.partition_index)
    partition.check_leader_epoch(asked.current_leader_epoch)
    partition.check_leader()
    read_committed = request.isolation_level == 1
    timestamp, offset = _look_up(partition, asked.timestamp, read_committed)
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=partition.epoch_of(offset) if offset >= 0 else -1,
    )


def _look_up(partition: Partition, timestamp: int, read_committed: bool) -> tuple[int, int]:
    log = partition.log
    if timestamp == LATEST:
        return -1, partition.readable_end(read_committed)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.log_start_offset
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return -1, -1
    try:
        found = log.max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    except (StorageError, OSError) as error:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from None
    if found is None or found.offset >= partition.readable_end(read_committed):
        return -1, -1
    return found.timestamp, found.offset
