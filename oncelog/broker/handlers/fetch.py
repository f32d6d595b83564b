"""Fetch (key 1, versions 4-18): read record batches, waiting for them when there are too few.

Sessions are KIP-227, topic ids KIP-516, leader epochs KIP-320, the isolation level KIP-98. Records are not decoded,
and where they are many not even read: the system sends them from the segment's file.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from typing import TYPE_CHECKING

from oncelog.broker.log.disk import StorageError
from oncelog.broker.replica.waiters import FetchWaiter
from oncelog.broker.requests.context import Pace, RequestContext
from oncelog.broker.requests.fetch_sessions import (
    FetchSession,
    PartitionKey,
    SessionPartition,
    sessionless_partitions,
)
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
PARTITIONS_AT_ONCE_MAX = 500
"""A fetch of more partitions gives way to other requests while it reads them."""
_DEBUGGING_REPLICA_ID = -2
_ABSENT = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
_ERROR_CODE_SINCE = 7
_TOPIC_IDS_SINCE = 13
_NOT_A_FOLLOWER = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
"""Only a broker may fetch as a replica: it would move the high watermark (CVE-2018-1288)."""


class _Reading:
    """One pass over the partitions of a fetch."""

    __slots__ = (
        "_absent",
        "_context",
        "_read_committed",
        "_size_bytes_left",
        "data",
        "partitions",
        "ready",
        "size_bytes",
    )

    def __init__(self, request: FetchRequest, context: RequestContext) -> None:
        self._context = context
        self._read_committed = request.isolation_level == READ_COMMITTED
        self._size_bytes_left = _size_bytes_max(request, context)
        self.data: list[tuple[SessionPartition, PartitionData]] = []
        self._absent: list[tuple[SessionPartition, PartitionData]] = []
        self.size_bytes = 0
        self.ready = False
        """Whether something must be said at once, such as an error."""
        self.partitions: list[Partition] = []

    def read(self, entry: SessionPartition) -> Partition | None:
        """Add what one partition has; returns the partition, or None if there is none."""
        asked = entry.request
        try:
            partition = _find(entry.key, self._context)
        except KafkaError as error:
            self.ready = True
            refused = self._absent if error.code in _ABSENT else self.data
            refused.append((entry, _failed(asked.partition, error, aborted_transactions=[])))
            return None
        self.partitions.append(partition)
        try:
            part = _read_partition(partition, asked, self._read_committed, self._size_bytes_left, not self.size_bytes)
        except KafkaError as error:
            self.refuse(entry, error)
            return partition
        self.ready = self.ready or part.diverging_epoch.end_offset >= 0
        size_bytes = len(part.records or b"")
        self.size_bytes += size_bytes
        self._size_bytes_left = max(0, self._size_bytes_left - size_bytes)
        self.data.append((entry, part))
        return partition

    def refuse(self, entry: SessionPartition, error: KafkaError) -> None:
        self.ready = True
        self.data.append((entry, _failed(entry.request.partition, error)))

    def results(self) -> list[tuple[SessionPartition, PartitionData]]:
        """In the order of the request. As in Kafka, what does not exist comes last, unknown topic ids before names."""
        if not self._absent:
            return self.data
        absent = [result for code in _ABSENT for result in self._absent if result[1].error_code == code]
        return [*self.data, *absent]

    def is_enough(self, bytes_min: int) -> bool:
        return self.ready or not self.data or self.size_bytes >= bytes_min


def handle(request: FetchRequest, context: RequestContext) -> FetchResponse | Awaitable[FetchResponse]:
    by_id = context.version >= _TOPIC_IDS_SINCE
    _check_request(request)
    services = context.services
    session = services.fetch_sessions.open(request, by_id, services.clock.steady_ms() / 1000)
    wanted = session.partitions.values() if session else sessionless_partitions(request, by_id)
    if len(wanted) > PARTITIONS_AT_ONCE_MAX:
        return _handle_many(request, session, list(wanted), context)
    if _is_follower(request):
        return _respond(request, session, _refuse_follower(request, wanted, context), context)
    reading = _read(request, wanted, context)
    min_bytes = min(request.min_bytes, _size_bytes_max(request, context))
    if reading.is_enough(min_bytes) or request.max_wait_ms <= 0:
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
        if reading.is_enough(min_bytes) or clock.monotonic() >= deadline:
            return _respond(request, session, reading, context)
        wait_ms = max((deadline - clock.monotonic()) * 1000, 0)
        waiter = FetchWaiter(reading.partitions, min_bytes - reading.size_bytes, wait_ms)
        del reading


def _read(request: FetchRequest, wanted: Iterable[SessionPartition], context: RequestContext) -> _Reading:
    reading = _Reading(request, context)
    for entry in wanted:
        reading.read(entry)
    return reading


async def _handle_many(
    request: FetchRequest, session: FetchSession | None, wanted: list[SessionPartition], context: RequestContext
) -> FetchResponse:
    """A fetch of thousands of partitions, with pauses. Others append in the pauses, so each partition is watched from
    the moment in which it was read."""
    clock = context.services.clock
    pace = Pace(context)
    min_bytes = min(request.min_bytes, _size_bytes_max(request, context))
    deadline = clock.monotonic() + min(max(request.max_wait_ms, 0), WAIT_MS_MAX) / 1000
    while True:
        waiter = FetchWaiter([], min_bytes, max(deadline - clock.monotonic(), 0) * 1000)
        try:
            reading = _Reading(request, context)
            for entry in wanted:
                if _is_follower(request):
                    reading.refuse(entry, _NOT_A_FOLLOWER)
                elif (partition := reading.read(entry)) is not None:
                    waiter.watch(partition)
                if pace.is_over:
                    await pace.rest()
            if reading.is_enough(min_bytes) or clock.monotonic() >= deadline:
                return await _respond_with_many(request, session, reading, context, pace)
            waiter.grew(reading.size_bytes)
            del reading
            await waiter.future
        finally:
            waiter.future.cancel()


def _find(key: PartitionKey, context: RequestContext) -> Partition:
    topic, index = key
    partitions = context.services.partitions
    return partitions.leader(partitions.name_of(topic) if isinstance(topic, bytes) else topic, index)


def _read_partition(
    partition: Partition, asked: FetchPartition, read_committed: bool, size_bytes_max: int, min_one: bool
) -> PartitionData:
    partition.check_leader_epoch(max(asked.current_leader_epoch, -1))
    partition.check_leader()
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
        if read_committed:
            found, aborted = log.locate_committed(
                offset, size_bytes_max=size_bytes_max, end_offset=end_offset, min_one=min_one
            )
        else:
            found = log.locate(offset, size_bytes_max=size_bytes_max, end_offset=end_offset, min_one=min_one)
            aborted = []
        if found.size_bytes > COALESCE_BYTES_MAX:
            data.records = found.stored()
        elif found.size_bytes:
            data.records = found.stored().read()
        if aborted:
            data.aborted_transactions = [
                AbortedTransaction(producer_id=txn.producer_id, first_offset=txn.first_offset) for txn in aborted
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


def _refuse_follower(request: FetchRequest, wanted: Iterable[SessionPartition], context: RequestContext) -> _Reading:
    reading = _Reading(request, context)
    for entry in wanted:
        reading.refuse(entry, _NOT_A_FOLLOWER)
    return reading


def _respond(
    request: FetchRequest, session: FetchSession | None, reading: _Reading, context: RequestContext
) -> FetchResponse:
    answer = _Answer(request, session)
    for entry, data in reading.results():
        answer.add(entry, data)
    return _throttled(answer.response, reading, context)


async def _respond_with_many(
    request: FetchRequest, session: FetchSession | None, reading: _Reading, context: RequestContext, pace: Pace
) -> FetchResponse:
    answer = _Answer(request, session)
    for entry, data in reading.results():
        answer.add(entry, data)
        if pace.is_over:
            await pace.rest()
    return _throttled(answer.response, reading, context)


def _throttled(response: FetchResponse, reading: _Reading, context: RequestContext) -> FetchResponse:
    quotas = context.services.quotas
    if quotas.fetch_limited:
        response.throttle_time_ms = context.throttle_time_ms = quotas.fetched(context, reading.size_bytes)
    return response


class _Answer:
    """A response under construction, in the order of the request: a topic that is named twice is answered twice."""

    __slots__ = ("_incremental", "_last_topic", "_session", "response")

    def __init__(self, request: FetchRequest, session: FetchSession | None) -> None:
        self._session = session
        self._incremental = session is not None and request.session_epoch > 0
        self._last_topic: bytes | str | None = None
        self.response = FetchResponse(session_id=session.session_id if session else 0)

    def add(self, entry: SessionPartition, data: PartitionData) -> None:
        if self._incremental and not entry.is_news(data):
            return
        entry.remember(data)
        topic, _ = entry.key
        responses = self.response.responses
        if topic != self._last_topic:
            self._last_topic = topic
            responses.append(
                FetchableTopicResponse(topic_id=topic)
                if isinstance(topic, bytes)
                else FetchableTopicResponse(topic=topic)
            )
        responses[-1].partitions.append(data)
        if self._session and self._incremental and data.records:
            self._session.served(entry.key)
