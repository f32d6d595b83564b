"""DeleteRecords (key 21, versions 0-2): move the start of partitions forward (KIP-107).

The new starts are on the disk before the answer, so that no crash brings back what was said to be deleted.
"""

from __future__ import annotations

from oncelog.broker.log.disk import StorageError
from oncelog.broker.metadata.image import INTERNAL_TOPICS
from oncelog.broker.requests.context import Pace, RequestContext
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

HIGH_WATERMARK = -1
_NONE = -1


async def handle(request: DeleteRecordsRequest, context: RequestContext) -> DeleteRecordsResponse:
    response = DeleteRecordsResponse()
    pace = Pace(context)
    for topic, offsets in _wanted(request).items():
        results = []
        for index, offset in offsets.items():
            result = DeleteRecordsPartitionResult(partition_index=index)
            try:
                result.low_watermark = _delete(topic, index, offset, context)
            except KafkaError as error:
                result.low_watermark, result.error_code = _NONE, error.code
            results.append(result)
            if pace.is_over:
                await pace.rest()
        response.topics.append(DeleteRecordsTopicResult(name=topic, partitions=results))
    try:
        await context.services.checkpoints.write()
    except StorageError as error:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from None
    return response


def error_reply(request: DeleteRecordsRequest, error: KafkaError, _: RequestContext) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    DeleteRecordsPartitionResult(
                        partition_index=asked.partition_index, low_watermark=_NONE, error_code=error.code
                    )
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _wanted(request: DeleteRecordsRequest) -> dict[str, dict[int, int]]:
    """Offsets by topic and partition; of a partition that stands twice, the last one counts."""
    wanted: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        for asked in topic.partitions:
            wanted.setdefault(topic.name, {})[asked.partition_index] = asked.offset
    return wanted


def _delete(topic: str, index: int, offset: int, context: RequestContext) -> int:
    """The new start of the log."""
    if topic in INTERNAL_TOPICS:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} is cleaned by the broker only")
    partition = context.services.partitions.leader(topic, index)
    partition.check_leader()
    log = partition.log
    if log.config.cleanup_compact and not log.config.cleanup_delete:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"{topic} is compacted and its cleanup.policy has no delete")
    if offset == HIGH_WATERMARK:
        offset = log.high_watermark
    if offset < 0 or offset > log.high_watermark:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"the records end at {log.high_watermark}")
    try:
        log.delete_records_before(offset)
    except (StorageError, OSError) as error:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from None
    return log.log_start_offset
