"""Produce (key 0, versions 3-13): append record batches to partitions.

The frame's bytes are checked, patched and written without being decoded or copied, unless the topic wants another
codec. Batches that take long to check are checked by a thread (`replica/batch_validation.py`). The connection does not
start its next request meanwhile, and receives nothing over the frame; it goes on when all batches are in the log.

acks=0 has no answer, and an error then closes the connection, which is the only way to tell the client. acks=1 answers
when the records are in the log, acks=all when the high watermark has passed them.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Set
from functools import partial
from typing import TYPE_CHECKING, Any

from oncelog.broker.base.eager import begin
from oncelog.broker.base.immediate_future import Promise
from oncelog.broker.metadata.image import INTERNAL_TOPICS
from oncelog.broker.replica.batch_validation import Checked, check_in_thread, check_on_loop
from oncelog.broker.replica.waiters import AckCountdown
from oncelog.broker.requests.context import NO_REPLY, RequestContext
from oncelog.broker.txn.produce_verification import open_transactions
from oncelog.protocol.chunks import along
from oncelog.protocol.errors import ErrorCode, KafkaError, ProtocolError
from oncelog.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from oncelog.protocol.records.batch import (
    ATTRIBUTES_POSITION,
    HEADER_SIZE,
    MAGIC,
    MAGIC_POSITION,
    TRANSACTIONAL_BIT,
)
from oncelog.protocol.records.validation import BadRecordsError, NoBatchError

if TYPE_CHECKING:
    from oncelog.broker.base.cpu_workers import Checkpoint
    from oncelog.broker.replica.partition import Partition
    from oncelog.broker.txn.produce_verification import Openings

logger = logging.getLogger(__name__)

ACKS_ALL = -1
_ZSTD_SINCE = 7
_SLICE_SECONDS = 0.002
"""After this long, a request with many batches lets others go on."""
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
_Appended = tuple["Partition", int]
"""Where a batch is, and its last offset."""
_Check = Callable[["Checkpoint"], Checked]

CHUNKS = (along("topic_data.partition_data", "responses.partition_responses"),)


def handle(request: ProduceRequest, context: RequestContext) -> ProduceResponse | Awaitable[ProduceResponse]:
    if request.acks not in (0, 1, ACKS_ALL):
        return error_reply(request, KafkaError(ErrorCode.INVALID_REQUIRED_ACKS), context)
    if request.transactional_id is None and _has_transactional_batch(request):
        raise KafkaError(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "a transactional batch came without a transactional id",
        )
    return begin(_append_all(request, context))


async def _append_all(request: ProduceRequest, context: RequestContext) -> Any:
    """The answer; or a promise of it, if nothing has been waited for yet."""
    openings = None
    if request.transactional_id is not None:
        openings = open_transactions(request, context)
        if openings.waiting is not None:
            # Later batches must not overtake these.
            context.keeps_frame = True
            await openings.settle()
    response = ProduceResponse()
    countdown: AckCountdown[ProduceResponse] | None = None
    waiting: _Waiting = {}
    topics = request.topic_data
    is_single = len(topics) == 1 and len(topics[0].partition_data) == 1
    repeated = _NONE_REPEATED if is_single else _repeated_partitions(request)
    slice_ends_at = 0.0 if is_single else time.monotonic() + _SLICE_SECONDS
    for topic in topics:
        answers: list[PartitionProduceResponse] = []
        if topic.partition_data:
            response.responses.append(
                TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers)
            )
        for data in topic.partition_data:
            answer = PartitionProduceResponse(index=data.index, base_offset=-1)
            answers.append(answer)
            if not is_single and time.monotonic() > slice_ends_at:
                context.keeps_frame = True
                await context.services.turns.next()
                slice_ends_at = time.monotonic() + _SLICE_SECONDS
            try:
                if repeated and (topic.name, topic.topic_id, data.index) in repeated:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "a partition stands twice in one request")
                appended = _append(request, topic, data, answer, context, openings)
                if not isinstance(appended, tuple):
                    context.keeps_frame = True
                    checked = await context.services.cpu_workers.run(appended)
                    appended = _append(request, topic, data, answer, context, openings, checked)
                    assert isinstance(appended, tuple), "a checked batch needs no other check"
            except KafkaError as error:
                _refuse(answer, error)
                continue
            partition, last_offset = appended
            if request.acks != ACKS_ALL:
                continue
            committed = partition.committed(last_offset + 1, alone=is_single)
            if committed is not None:
                if countdown is None:
                    countdown = AckCountdown(response)
                    # For the batches that follow: those before them may be committed while they are checked.
                    countdown.expect()
                waiting[id(answer)] = answer
                _wait_for(committed, answer, waiting, countdown)
    if repeated:
        response.responses = _answered_once(response.responses)
    if context.services.quotas.produce_limited:
        _throttle(request, response, context)
    if request.acks == 0:
        return _no_reply(response)
    if countdown is None:
        return response
    countdown.expire_after(context.services.ack_timeouts, request.timeout_ms, lambda: _time_out(waiting))
    countdown.arrived()
    if not context.keeps_frame:
        return countdown
    context.start_next()
    return await countdown


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
    topic: TopicProduceData,
    data: PartitionProduceData,
    answer: PartitionProduceResponse,
    context: RequestContext,
    openings: Openings | None,
    checked: Checked | None = None,
) -> _Appended | _Check:
    """Append one batch. If the check that it needs first would hold up the event loop, return that instead."""
    services = context.services
    name = topic.name if context.version < 13 else services.partitions.name_of(topic.topic_id)
    guard = None
    if openings is not None:
        if (name, data.index) in openings.refused:
            raise openings.refused[name, data.index]
        guard = openings.guards.get((name, data.index))
    if name in INTERNAL_TOPICS:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is written by the broker only")
    partition = services.partitions.leader(name, data.index)
    log = partition.log
    # Told also with a refusal: a producer whose sequence is unknown sees from it whether its records were deleted.
    answer.log_start_offset = log.log_start_offset
    now_ms = services.clock.wall_ms()
    if checked is None:
        records = data.records
        assert records is None or isinstance(records, memoryview)
        allow_zstd = context.version >= _ZSTD_SINCE
        checked = check_on_loop(records, log.config, allow_zstd, now_ms)
        if checked is None:
            return partial(check_in_thread, records, log.config, allow_zstd, now_ms)
    if request.acks == ACKS_ALL:
        partition.check_enough_in_sync()
    batch, header = checked
    result = partition.append(batch, header, now_ms, guard=guard)
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
    committed: Promise[None],
    answer: PartitionProduceResponse,
    waiting: _Waiting,
    countdown: AckCountdown[ProduceResponse],
) -> None:
    def arrive(_: Promise[None]) -> None:
        del waiting[id(answer)]
        error = committed.exception()
        if isinstance(error, KafkaError):
            _refuse(answer, error)
        countdown.arrived()

    countdown.expect()
    committed.then(arrive)


def _time_out(waiting: _Waiting) -> None:
    """The disk takes longer than the client wants to wait. The records may still become safe."""
    error = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the records were not committed within the request's timeout")
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
    size_bytes = sum(len(data.records or b"") for topic in request.topic_data for data in topic.partition_data)
    response.throttle_time_ms = context.throttle_time_ms = context.services.quotas.produced(context, size_bytes)
