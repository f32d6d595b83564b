"""Fetch (key 1, versions 4-18): read record batches, waiting for them when there are too few.

Sessions are KIP-227, topic ids KIP-516, leader epochs KIP-320, the isolation level KIP-98. Records are not decoded,
and where they are many not even read: the system sends them from the segment's file.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from typing import TYPE_CHECKING

from oncelog.broker.log.disk import StorageError
from oncelog.broker.runtime.context import RequestContext
from oncelog.broker.runtime.fetch_sessions import (
    FetchSession,
    PartitionKey,
    SessionPartition,
    sessionless_partitions,
)
from oncelog.broker.runtime.waiters import FetchWaiter
from oncelog.named_tuple import NamedTuple
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.framing import COALESCE_BYTES_MAX
from oncelog.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

if TYPE_CHECKING:
    from oncelog.broker.replica.partition import Partition

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
WAIT_MS_MAX = 600_000
"""An earlier answer is always allowed; this one ends waits whose client can no longer be seen to be gone."""
_DEBUGGING_REPLICA_ID = -2
_ERROR_CODE_SINCE = 7
_TOPIC_IDS_SINCE = 13


class _Reading(NamedTuple):
    """One pass over all partitions of a fetch."""

    data: list[tuple[SessionPartition, PartitionData]]
    size_bytes: int
    ready: bool
    """Whether something must be said at once, such as an error."""
    partitions: list[Partition]


def handle(request: FetchRequest, context: RequestContext) -> FetchResponse | Awaitable[FetchResponse]:
    by_id = context.version >= _TOPIC_IDS_SINCE
    _check_request(request)
    services = context.services
    session = services.fetch_sessions.open(request, by_id, services.clock.monotonic())
    wanted = session.partitions.values() if session else sessionless_partitions(request, by_id)
    if _is_follower(request):
        return _respond(request, session, _refuse_follower(wanted), context)
    reading = _read(request, wanted, context)
    min_bytes = min(request.min_bytes, _size_bytes_max(request, context))
    if reading.ready or reading.size_bytes >= min_bytes or request.max_wait_ms <= 0:
        return _respond(request, session, reading, context)
    wait_ms = min(request.max_wait_ms, WAIT_MS_MAX)
    # Before anything else can run: what another connection appends from here on must find somebody waiting.
    waiter = FetchWaiter(reading.partitions, min_bytes - reading.size_bytes, wait_ms)
    return _wait(
        request, session, list(wanted), waiter, min_bytes, services.clock.monotonic() + wait_ms / 1000, context
    )


def error_reply(request: FetchRequest, error: KafkaError, context: RequestContext) -> FetchResponse:
    """The code stands at the top since version 7; before that, every partition has it."""
    response = FetchResponse(error_code=error.code)
    if context.version < _ERROR_CODE_SINCE:
        for topic in request.topics:
            failed = [_failed(asked.partition, error) for asked in topic.partitions]
            response.responses.append(FetchableTopicResponse(topic=topic.topic, partitions=failed))
    return response


def _check_request(request: FetchRequest) -> None:
    if request.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"isolation level {request.isolation_level} does not exist")
    if min(request.replica_id, request.replica_state.replica_id) < _DEBUGGING_REPLICA_ID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "no replica has such an id")


def _size_bytes_max(request: FetchRequest, context: RequestContext) -> int:
    size_bytes_max = min(max(request.max_bytes, 0), context.services.fetch_size_bytes_max)
    quotas = context.services.quotas
    if quotas.fetch_limited:
        # Else one answer could carry what the quota allows for minutes, and only the next one would wait.
        return min(size_bytes_max, quotas.fetch_size_bytes_max(context))
    return size_bytes_max


async def _wait(
    request: FetchRequest,
    session: FetchSession | None,
    wanted: list[SessionPartition],
    waiter: FetchWaiter,
    min_bytes: int,
    deadline: float,
    context: RequestContext,
) -> FetchResponse:
    """Wait with empty hands: what was too little is read again, so that no waiting client pins records."""
    clock = context.services.clock
    while True:
        await waiter.future
        reading = _read(request, wanted, context)
        if reading.ready or reading.size_bytes >= min_bytes or clock.monotonic() >= deadline:
            return _respond(request, session, reading, context)
        wait_ms = max((deadline - clock.monotonic()) * 1000, 0)
        waiter = FetchWaiter(reading.partitions, min_bytes - reading.size_bytes, wait_ms)
        del reading


def _read(request: FetchRequest, wanted: Iterable[SessionPartition], context: RequestContext) -> _Reading:
    read_committed = request.isolation_level == READ_COMMITTED
    size_bytes_left = _size_bytes_max(request, context)
    data: list[tuple[SessionPartition, PartitionData]] = []
    partitions: list[Partition] = []
    size_bytes = 0
    ready = False
    for entry in wanted:
        asked = entry.request
        try:
            partition = _find(entry.key, context)
        except KafkaError as error:
            ready = True
            data.append((entry, _failed(asked.partition, error, aborted_transactions=[])))
            continue
        partitions.append(partition)
        try:
            part = _read_partition(partition, asked, read_committed, size_bytes_left, not size_bytes)
        except KafkaError as error:
            ready = True
            data.append((entry, _failed(asked.partition, error)))
            continue
        ready = ready or part.diverging_epoch.end_offset >= 0
        count = len(part.records or b"")
        size_bytes += count
        size_bytes_left = max(0, size_bytes_left - count)
        data.append((entry, part))
    return _Reading(data, size_bytes, ready or not data, partitions)


def _find(key: PartitionKey, context: RequestContext) -> Partition:
    topic, index = key
    partitions = context.services.partitions
    return partitions.leader(partitions.name_of(topic) if isinstance(topic, bytes) else topic, index)


def _read_partition(
    partition: Partition, asked: FetchPartition, read_committed: bool, size_bytes_max: int, min_one: bool
) -> PartitionData:
    partition.check_leader_epoch(max(asked.current_leader_epoch, -1))
    partition.check_online()
    log = partition.log
    offset = asked.fetch_offset
    high_watermark = log.high_watermark
    data = PartitionData(
        partition_index=asked.partition,
        high_watermark=high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        aborted_transactions=[] if read_committed else None,
        records=b"",
    )
    if asked.last_fetched_epoch >= 0 and _diverges(partition, asked, data):
        return data
    end_offset = data.last_stable_offset if read_committed else high_watermark
    if offset == end_offset and offset >= data.log_start_offset:
        return data
    if not data.log_start_offset <= offset <= log.end_offset:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    size_bytes_max = min(size_bytes_max, max(asked.partition_max_bytes, 0))
    if offset > end_offset or not (size_bytes_max or min_one):
        return data
    try:
        found = log.locate(offset, size_bytes_max=size_bytes_max, end_offset=end_offset, min_one=min_one)
        if found.size_bytes > COALESCE_BYTES_MAX:
            data.records = found.stored()
        elif found.size_bytes:
            data.records = found.stored().read()
        if read_committed and found.size_bytes:
            data.aborted_transactions = [
                AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
                for aborted in log.aborted_transactions(offset, found.next_offset)
            ]
    except (StorageError, OSError) as error:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from None
    return data


def _diverges(partition: Partition, asked: FetchPartition, data: PartitionData) -> bool:
    """Whether the reader's log parts from ours before the offset it asks for (KIP-595); `data` then says where."""
    epoch, end_offset = partition.end_of_epoch(asked.last_fetched_epoch)
    if epoch < 0 or end_offset < 0:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch == asked.last_fetched_epoch and end_offset >= asked.fetch_offset:
        return False
    data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return True


def _failed(
    index: int, error: KafkaError, *, aborted_transactions: list[AbortedTransaction] | None = None
) -> PartitionData:
    """Kafka has an empty list of aborted transactions where there is no such partition, and none otherwise."""
    return PartitionData(
        partition_index=index,
        error_code=error.code,
        high_watermark=-1,
        aborted_transactions=aborted_transactions,
        records=b"",
    )


def _is_follower(request: FetchRequest) -> bool:
    return request.replica_id >= 0 or request.replica_state.replica_id >= 0


def _refuse_follower(wanted: Iterable[SessionPartition]) -> _Reading:
    """Only a broker may fetch as a replica: it would move the high watermark (CVE-2018-1288)."""
    error = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    data = [(entry, _failed(entry.request.partition, error)) for entry in wanted]
    return _Reading(data, 0, True, [])


def _respond(
    request: FetchRequest, session: FetchSession | None, reading: _Reading, context: RequestContext
) -> FetchResponse:
    incremental = session is not None and request.session_epoch > 0
    response = FetchResponse(session_id=session.session_id if session else 0)
    by_topic: dict[bytes | str, FetchableTopicResponse] = {}
    for entry, data in reading.data:
        if incremental and not entry.is_news(data):
            continue
        entry.remember(data)
        topic, _ = entry.key
        answer = by_topic.get(topic)
        if answer is None:
            answer = FetchableTopicResponse()
            if isinstance(topic, bytes):
                answer.topic_id = topic
            else:
                answer.topic = topic
            by_topic[topic] = answer
            response.responses.append(answer)
        answer.partitions.append(data)
        if session and data.records:
            session.served(entry.key)
    quotas = context.services.quotas
    if quotas.fetch_limited:
        response.throttle_time_ms = context.throttle_time_ms = quotas.fetched(context, reading.size_bytes)
    return response
