"""Produce (key 0, versions 3-13): append record batches to partitions.

The frame's bytes are checked, patched and written without being decoded or copied, unless the topic wants another
codec (`compression.type`); they are not touched after `handle` returns, so the next request may be received over
them. acks=0 has no answer, and an error then closes
the connection, which is the only way to tell the client. acks=1 answers when the records are in the log,
acks=all when the high watermark has passed them.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Set
from typing import TYPE_CHECKING

from oncelog.broker.runtime.context import NO_REPLY, RequestContext
from oncelog.broker.runtime.openings import Openings, open_transactions
from oncelog.broker.runtime.waiters import AckCountdown
from oncelog.protocol.errors import ErrorCode, KafkaError, ProtocolError
from oncelog.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

# The codecs not in the midst of a request, where a failed import would hide what became of its other batches.
from oncelog.protocol.records import codecs as codecs
from oncelog.protocol.records.batch import (
    ATTRIBUTES_POSITION,
    HEADER_SIZE,
    MAGIC,
    MAGIC_POSITION,
    TRANSACTIONAL_BIT,
    TimestampType,
    read_header,
    recompress_batch,
)
from oncelog.protocol.records.scan import INT64_MAX, INT64_MIN
from oncelog.protocol.records.validation import BadRecordsError, NoBatchError, check_produce_records

if TYPE_CHECKING:
    from oncelog.broker.log.verification import VerificationGuard
    from oncelog.broker.replica.partition import Partition
    from oncelog.broker.runtime.openings import Guards, Refusals

logger = logging.getLogger(__name__)

ACKS_ALL = -1
INTERNAL_TOPICS = frozenset(("__consumer_offsets", "__transaction_state"))
_ZSTD_SINCE = 7
_REFUSED_WITHOUT_THE_LOG = frozenset(
    (
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    )
)
"""Answers with these codes do not tell where the log starts, as Kafka's do not."""

_Key = tuple[str, bytes, int]
"""Topic name, topic id and partition; a version has one of the first two."""
_Waiting = dict[int, PartitionProduceResponse]
"""Answers whose records are not safe yet, each under its `id`: those of two topics may be equal."""
_NONE_REPEATED: frozenset[_Key] = frozenset()


def handle(request: ProduceRequest, context: RequestContext) -> ProduceResponse | Awaitable[ProduceResponse]:
    if request.acks not in (0, 1, ACKS_ALL):
        return error_reply(request, KafkaError(ErrorCode.INVALID_REQUIRED_ACKS), context)
    if request.transactional_id is None and _has_transactional_batch(request):
        raise KafkaError(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "a transactional batch came without a transactional id",
        )
    if request.transactional_id is not None:
        openings = open_transactions(request, context)
        if openings.waiting is not None:
            # The frame's memory is received over meanwhile, and later batches must not overtake these.
            context.exclusive = True
            _keep_records(request)
            return _append_opened(request, context, openings)
        return _append_all(request, context, openings.guards, openings.refused)
    return _append_all(request, context)


async def _append_opened(request: ProduceRequest, context: RequestContext, openings: Openings) -> ProduceResponse:
    await openings.settle()
    response = _append_all(request, context, openings.guards, openings.refused)
    return response if isinstance(response, ProduceResponse) or response is NO_REPLY else await response


def _keep_records(request: ProduceRequest) -> None:
    for topic in request.topic_data:
        for data in topic.partition_data:
            if data.records is not None:
                data.records = memoryview(bytearray(data.records))


def _append_all(
    request: ProduceRequest,
    context: RequestContext,
    guards: Guards | None = None,
    refused: Refusals | None = None,
) -> ProduceResponse | Awaitable[ProduceResponse]:
    response = ProduceResponse()
    countdown: AckCountdown[ProduceResponse] | None = None
    waiting: _Waiting = {}
    topics = request.topic_data
    is_single = len(topics) == 1 and len(topics[0].partition_data) == 1
    repeated = _NONE_REPEATED if is_single else _repeated_partitions(request)
    for topic in topics:
        answers: list[PartitionProduceResponse] = []
        if topic.partition_data:
            response.responses.append(
                TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers)
            )
        for data in topic.partition_data:
            answer = PartitionProduceResponse(index=data.index, base_offset=-1)
            answers.append(answer)
            try:
                name = topic.name if context.version < 13 else context.services.partitions.name_of(topic.topic_id)
                if repeated and (topic.name, topic.topic_id, data.index) in repeated:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "a partition stands twice in one request")
                if refused and (name, data.index) in refused:
                    raise refused[name, data.index]
                guard = guards.get((name, data.index)) if guards else None
                partition, last_offset = _append(request, name, data, answer, context, guard)
            except KafkaError as error:
                _refuse(answer, error)
                continue
            if request.acks == ACKS_ALL and partition.log.high_watermark <= last_offset:
                if is_single and partition.sync_now():
                    continue
                countdown = countdown or AckCountdown(response)
                waiting[id(answer)] = answer
                _wait_for(partition, last_offset + 1, answer, waiting, countdown)
    if repeated:
        response.responses = _answered_once(response.responses)
    _throttle(request, response, context)
    if request.acks == 0:
        return _no_reply(response)
    if countdown is None:
        return response
    countdown.expire_after(context.services.ack_timeouts, request.timeout_ms, lambda: _time_out(waiting))
    return countdown


def error_reply(request: ProduceRequest, error: KafkaError, _: RequestContext) -> ProduceResponse:
    """The same error for every partition of the request; with acks=0, the end of the connection."""
    response = ProduceResponse()
    for topic in request.topic_data:
        answers = [PartitionProduceResponse(index=data.index, base_offset=-1) for data in topic.partition_data]
        for answer in answers:
            _refuse(answer, error)
        response.responses.append(
            TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers)
        )
    return _no_reply(response) if request.acks == 0 else response


def _has_transactional_batch(request: ProduceRequest) -> bool:
    """Looked for before anything is written, because one such batch spoils the whole request."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            if (
                records is not None
                and len(records) >= HEADER_SIZE
                and records[ATTRIBUTES_POSITION + 1] & TRANSACTIONAL_BIT
                and records[MAGIC_POSITION] == MAGIC
            ):
                return True
    return False


def _repeated_partitions(request: ProduceRequest) -> Set[_Key]:
    """Partitions that the request names more than once: an answer could not say which of their batches it means."""
    keys = [(topic.name, topic.topic_id, data.index) for topic in request.topic_data for data in topic.partition_data]
    if len(set(keys)) == len(keys):
        return _NONE_REPEATED
    return {key for key, count in Counter(keys).items() if count > 1}


def _answered_once(topics: list[TopicProduceResponse]) -> list[TopicProduceResponse]:
    """A refusal of a partition that the request named twice is told once: clients look it up by its name."""
    folded: dict[tuple[str, bytes], dict[int, PartitionProduceResponse]] = {}
    for topic in topics:
        answers = folded.setdefault((topic.name, topic.topic_id), {})
        answers |= {answer.index: answer for answer in topic.partition_responses}
    return [
        TopicProduceResponse(name=name, topic_id=topic_id, partition_responses=list(answers.values()))
        for (name, topic_id), answers in folded.items()
    ]


def _append(
    request: ProduceRequest,
    topic: str,
    data: PartitionProduceData,
    answer: PartitionProduceResponse,
    context: RequestContext,
    guard: VerificationGuard | None,
) -> tuple[Partition, int]:
    if topic in INTERNAL_TOPICS:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} is written by the broker only")
    services = context.services
    partition = services.partitions.leader(topic, data.index)
    # Told also with a refusal: a producer whose sequence is unknown sees from it whether its records were deleted.
    answer.log_start_offset = partition.log.log_start_offset
    config = partition.log.config
    records = data.records
    assert records is None or isinstance(records, memoryview)
    now_ms = services.clock.now_ms()
    by_producer = config.message_timestamp_type == TimestampType.CREATE_TIME
    header = check_produce_records(
        records,
        compacted=config.cleanup_compact,
        max_message_bytes=config.max_message_bytes,
        allow_zstd=context.version >= _ZSTD_SINCE,
        timestamp_ms_min=now_ms - config.message_timestamp_before_max_ms if by_producer else INT64_MIN,
        timestamp_ms_max=now_ms + config.message_timestamp_after_max_ms if by_producer else INT64_MAX,
    )
    assert records is not None
    if config.compression is not None and config.compression is not header.compression:
        # The log holds the new size against max.message.bytes, as it does with every batch.
        records = memoryview(recompress_batch(records, header, config.compression, config.compression_level))
        header = read_header(records)
    if request.acks == ACKS_ALL:
        partition.check_enough_in_sync()
    result = partition.append(records, header, now_ms, guard=guard)
    answer.base_offset = result.first_offset
    answer.log_append_time_ms = result.log_append_time
    return partition, result.last_offset


def _refuse(answer: PartitionProduceResponse, error: KafkaError) -> None:
    if error.code == ErrorCode.INVALID_TXN_STATE:
        # A producer's own fault, or ours, and the end of it: whoever runs it will want to know why.
        logger.warning("a batch was refused: %s", error)
    answer.error_code = error.code
    answer.error_message = error.message or None
    answer.base_offset = -1
    if error.code in _REFUSED_WITHOUT_THE_LOG or isinstance(error, NoBatchError):
        answer.log_start_offset = -1
    if isinstance(error, BadRecordsError):
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=position, batch_index_error_message=reason)
            for position, reason in error.bad
        ]


def _wait_for(
    partition: Partition,
    offset: int,
    answer: PartitionProduceResponse,
    waiting: _Waiting,
    countdown: AckCountdown[ProduceResponse],
) -> None:
    def safe(error: KafkaError | None) -> None:
        del waiting[id(answer)]
        if error is not None:
            _refuse(answer, error)
        countdown.arrived()

    countdown.expect()
    partition.when_safe(offset, safe)


def _time_out(waiting: _Waiting) -> None:
    """The disk takes longer than the client wants to wait. The records may still become safe."""
    error = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the records were not safe within the request's timeout")
    for answer in waiting.values():
        _refuse(answer, error)


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
