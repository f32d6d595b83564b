"""Produce (key 0, versions 3-13): append record batches to partitions.

The frame's bytes are checked, patched and written without being decoded or copied; they are not touched after
`handle` returns, so the next request may be received over them. acks=0 has no answer, and an error then closes
the connection, which is the only way to tell the client. acks=1 answers when the records are in the log,
acks=all when the high watermark has passed them.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from oncelog.broker.runtime.context import NO_REPLY, RequestContext
from oncelog.broker.runtime.waiters import AckCountdown
from oncelog.protocol.errors import ErrorCode, KafkaError, ProtocolError
from oncelog.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from oncelog.protocol.records.validation import check_produce_records

if TYPE_CHECKING:
    from oncelog.broker.replica.partition import Partition

ACKS_ALL = -1
INTERNAL_TOPICS = frozenset(("__consumer_offsets", "__transaction_state"))
_ZSTD_SINCE = 7


def handle(request: ProduceRequest, context: RequestContext) -> ProduceResponse | Awaitable[ProduceResponse]:
    if request.acks not in (0, 1, ACKS_ALL):
        return error_reply(request, KafkaError(ErrorCode.INVALID_REQUIRED_ACKS), context)
    response = ProduceResponse()
    countdown: AckCountdown[ProduceResponse] | None = None
    seen: set[tuple[str, int]] = set()
    for topic in request.topic_data:
        answers: list[PartitionProduceResponse] = []
        response.responses.append(
            TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers)
        )
        for data in topic.partition_data:
            answer = PartitionProduceResponse(index=data.index, base_offset=-1)
            answers.append(answer)
            try:
                name = topic.name if context.version < 13 else context.services.partitions.name_of(topic.topic_id)
                if (name, data.index) in seen:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "a partition stands twice in one request")
                seen.add((name, data.index))
                partition, last_offset = _append(request, name, data, answer, context)
            except KafkaError as error:
                _refuse(answer, error)
                continue
            if request.acks == ACKS_ALL and partition.log.high_watermark <= last_offset:
                countdown = countdown or AckCountdown(response)
                _wait_for(partition, last_offset + 1, answer, countdown)
    if request.acks == 0:
        return _no_reply(response)
    _throttle(request, response, context)
    return response if countdown is None else countdown.future


def error_reply(request: ProduceRequest, error: KafkaError, _: RequestContext) -> ProduceResponse:
    """The same error for every partition of the request."""
    response = ProduceResponse()
    for topic in request.topic_data:
        answers = [PartitionProduceResponse(index=data.index, base_offset=-1) for data in topic.partition_data]
        for answer in answers:
            _refuse(answer, error)
        response.responses.append(
            TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers)
        )
    return response


def _append(
    request: ProduceRequest,
    topic: str,
    data: PartitionProduceData,
    answer: PartitionProduceResponse,
    context: RequestContext,
) -> tuple[Partition, int]:
    if topic in INTERNAL_TOPICS:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} is written by the broker only")
    services = context.services
    partition = services.partitions.leader(topic, data.index)
    config = partition.log.config
    records = data.records
    assert records is None or isinstance(records, memoryview)
    header = check_produce_records(
        records,
        compacted=config.cleanup_compact,
        max_message_bytes=config.max_message_bytes,
        allow_zstd=context.version >= _ZSTD_SINCE,
    )
    assert records is not None
    if request.acks == ACKS_ALL:
        partition.check_enough_in_sync()
    if header.is_transactional and request.transactional_id is None:
        raise KafkaError(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "a transactional batch came without a transactional id",
        )
    result = partition.append(records, header, services.clock.now_ms())
    answer.base_offset = result.first_offset
    answer.log_append_time_ms = result.log_append_time
    answer.log_start_offset = partition.log.log_start_offset
    return partition, result.last_offset


def _refuse(answer: PartitionProduceResponse, error: KafkaError) -> None:
    answer.error_code = error.code
    answer.error_message = error.message or None
    answer.base_offset = -1


def _wait_for(
    partition: Partition,
    offset: int,
    answer: PartitionProduceResponse,
    countdown: AckCountdown[ProduceResponse],
) -> None:
    def safe(error: KafkaError | None) -> None:
        if error is not None:
            _refuse(answer, error)
        countdown.arrived()

    countdown.expect()
    partition.when_safe(offset, safe)


def _no_reply(response: ProduceResponse) -> ProduceResponse:
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code:
                code = ErrorCode(answer.error_code).name
                raise ProtocolError(f"a produce with acks=0 failed: {code} {answer.error_message or ''}")
    no_reply: ProduceResponse = NO_REPLY
    return no_reply


def _throttle(request: ProduceRequest, response: ProduceResponse, context: RequestContext) -> None:
    quotas = context.services.quotas
    if quotas.produce_limited:
        size_bytes = sum(len(data.records or b"") for topic in request.topic_data for data in topic.partition_data)
        response.throttle_time_ms = context.throttle_time_ms = quotas.produced(context, size_bytes)
