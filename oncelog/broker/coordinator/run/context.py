"""Runs one coordinator on one partition of its internal topic.

    run(operation)   the coordinator decides · records are appended · replay changes its state · reply when safe

Everything happens in one turn of the event loop except the waiting for safety, so operations never interleave.
Records that are too large for the log are refused before anything changes: that is one client's error only. If the log
refuses an append, the state is still what the log says, apart from volatile changes; the shard then loads itself anew,
as after a restart. If the partition is offline, so is its shard: the coordinator may know more than the log will ever
have, so it says nothing more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from oncelog.broker.base.immediate_future import Promise
from oncelog.broker.base.turns import Pace, Turns
from oncelog.broker.coordinator.contract import (
    CancelTimer,
    Completion,
    Coordinator,
    CoordinatorRecord,
    Parked,
    RecordsTooLarge,
    Refused,
    ReplayContext,
    Result,
)
from oncelog.broker.coordinator.record_codec import batch_bytes_max, divide_records, encode_record
from oncelog.broker.coordinator.run.timers import TimerQueue
from oncelog.broker.log.disk import StorageError
from oncelog.broker.log.producer_state import AppendOrigin
from oncelog.named_tuple import NamedTuple
from oncelog.protocol.errors import ErrorCode, KafkaError, ProtocolError
from oncelog.protocol.records.batch import build_batch, read_header
from oncelog.protocol.records.control import ControlType, decode_control_key
from oncelog.protocol.records.record import Record, iter_records

if TYPE_CHECKING:
    from oncelog.broker.base.clock import Clock
    from oncelog.broker.base.now import Now
    from oncelog.broker.coordinator.effects import BatchLimit
    from oncelog.broker.coordinator.record_codec import EncodedRecord
    from oncelog.broker.log.verification import VerificationGuard
    from oncelog.broker.replica.partition import Partition

logger = logging.getLogger(__name__)

C = TypeVar("C", bound=Coordinator)
R = TypeVar("R")

_LOAD_CHUNK_BYTES = 1 << 20
_RELOAD_PAUSE_SECONDS = 0.5
_OWNERS_FAULT = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE)


class TxnOwner(NamedTuple):
    """Whose transaction records are part of."""

    producer_id: int
    producer_epoch: int
    guard: VerificationGuard | None = None


_NOBODY = TxnOwner(-1, -1)


class Shard(Generic[C]):
    def __init__(
        self,
        make_coordinator: Callable[[BatchLimit], C],
        partition: Partition,
        clock: Clock,
        turns: Turns,
        perform: Callable[[Shard[C], Any], None] | None = None,
    ) -> None:
        """`perform` carries out the effects of results, for coordinators that have any."""
        self._make_coordinator = make_coordinator
        self._partition = partition
        self._clock = clock
        self._turns = turns
        self._performer = perform
        self._timers = TimerQueue(clock, self._timer_fired)
        self._parked: dict[Hashable, Promise[Any]] = {}
        self._loading: asyncio.Task[None] | None = None
        self._closed = False
        self.coordinator = make_coordinator(self._batch_bytes_max)
        self.loaded = False

    @property
    def partition(self) -> Partition:
        return self._partition

    @property
    def is_online(self) -> bool:
        try:
            self._partition.check_leader()
        except KafkaError:
            return False
        return True

    def is_safe(self, offset: int) -> bool:
        """Whether the record at `offset` can no longer be lost."""
        return self._partition.log.high_watermark > offset

    def start_loading(self) -> None:
        """An empty log is loaded at once; another in the background, in slices."""
        if self._partition.log.end_offset == self._partition.log.log_start_offset:
            self._finish_loading()
        else:
            self._loading = asyncio.get_running_loop().create_task(self._load())

    async def loading(self) -> None:
        """Wait until the log has been read. The waiter may go away without stopping that."""
        self.check_online()
        while not self.loaded:
            if self._loading is None or self._closed:
                raise KafkaError(ErrorCode.NOT_COORDINATOR, "the coordinator has moved or stops")
            await asyncio.shield(self._loading)
            self.check_online()

    def run(self, operation: Callable[[C, Now], Result[R]]) -> R | Promise[R]:
        """The reply, or a promise of it where it has to wait. KafkaError where the coordinator refuses."""
        self._check_ready()
        result = operation(self.coordinator, self._clock.now())
        return self._carry_out(result)

    def run_transactional(self, operation: Callable[[C, Now], Result[R]], owner: TxnOwner) -> R | Promise[R]:
        """Like `run`, with the records as part of a producer's transaction: pending until its marker."""
        self._check_ready()
        result = operation(self.coordinator, self._clock.now())
        return self._carry_out(result, owner)

    def tell(self, operation: Callable[[C, Now], Result[None]]) -> None:
        """Like `run`, for what has happened: nobody waits for a reply."""
        self._check_ready()
        self._bring_about(lambda: operation(self.coordinator, self._clock.now()))

    def marker_written(self, producer_id: int, producer_epoch: int, committed: bool) -> None:
        """A transaction has ended in this partition: a marker was appended to its log."""
        if self.loaded:
            self._bring_about(lambda: self.coordinator.replay_marker(producer_id, producer_epoch, committed))

    def close(self) -> None:
        """Stop without a trace in the log; whoever waits is told to look for the coordinator again."""
        self._closed = True
        if self._loading:
            self._loading.cancel()
        self._unload(KafkaError(ErrorCode.NOT_COORDINATOR, "the coordinator has moved or stops"))

    def check_online(self) -> None:
        """Refuse what cannot become safe any more; whoever is parked is told so, too."""
        try:
            self._partition.check_leader()
        except KafkaError as error:
            if self.loaded:
                self._unload(error)
            raise _as_coordinator_error(error) from None

    def _check_ready(self) -> None:
        if not self.loaded:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the coordinator is reading its log")
        self.check_online()

    # -- carrying out ----------------------------------------------------------------------------------------

    def _carry_out(self, result: Result[R], owner: TxnOwner | None = None) -> R | Promise[R]:
        committed = self._write(result, owner, awaited=not isinstance(result.reply, Parked))
        reply: R | Promise[R]
        if isinstance(result.reply, Parked):
            # Parked before the effects happen, since one of them may complete it.
            reply = self._park(result.reply)
        elif committed is None:
            reply = result.reply
        else:
            reply = Promise()
            committed.then(partial(_settle_after, reply, result.reply))
        self._perform(result.effects, committed)
        return reply

    def _bring_about(self, decide: Callable[[], Result[None]]) -> None:
        """A result without anyone who waits for its reply, and who could be refused."""
        try:
            result = decide()
            committed = self._write(result, None, awaited=False)
        except RecordsTooLarge as error:
            # Somebody has lowered the limit of the internal topic, and what must follow from its records does not fit.
            self._reload(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message))
            raise
        self._perform(result.effects, committed)

    def _write(self, result: Result[Any], owner: TxnOwner | None, *, awaited: bool) -> Promise[None] | None:
        """Records, timers, and replies of others; what everything else has to wait for, None if for nothing.

        `awaited` says that somebody waits for the reply. RecordsTooLarge comes before anything has changed.
        """
        batches = self._batches(result) if result.records else ()
        for completion in result.completions:
            if completion.at_once:
                self._complete(completion)
        start = 0
        for batch in batches:
            self._append_batch(result.records[start : start + len(batch)], batch, owner)
            start += len(batch)
        for timer in result.timers:
            if isinstance(timer, CancelTimer):
                self._timers.cancel(timer.key)
            else:
                self._timers.set(timer.key, timer.deadline_ms)
        replies = [completion for completion in result.completions if not completion.at_once]
        if not (awaited or result.effects or replies):
            return None
        committed = self._partition.committed(self._partition.log.end_offset)
        for completion in replies:
            self._complete(completion, committed)
        return committed

    def _batch_bytes_max(self) -> int:
        config = self._partition.log.config
        return min(config.max_message_bytes, config.segment_bytes)

    def _batches(self, result: Result[Any]) -> Sequence[Sequence[EncodedRecord]]:
        """The records as they are appended. RecordsTooLarge if the log would not take them."""
        size_bytes_max = self._batch_bytes_max()
        encoded = [encode_record(record) for record in result.records]
        batches = list(divide_records(encoded, size_bytes_max)) if result.divisible else [encoded]
        size_bytes = max(map(batch_bytes_max, batches))
        if size_bytes > size_bytes_max:
            raise RecordsTooLarge(size_bytes, size_bytes_max)
        return batches

    def _append_batch(
        self, records: list[CoordinatorRecord], encoded: Sequence[EncodedRecord], owner: TxnOwner | None
    ) -> None:
        now = self._clock.now()
        producer_id, producer_epoch, guard = owner or _NOBODY
        batch = build_batch(
            [Record(0, now.wall_ms, key, value) for key, value in encoded],
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=-1 if owner is None else 0,
            transactional=owner is not None,
        )
        view = memoryview(batch)
        try:
            appended = self._partition.append(view, read_header(view), now.wall_ms, AppendOrigin.COORDINATOR, guard)
        except KafkaError as error:
            if owner is None or error.code not in _OWNERS_FAULT:
                self.check_online()
                self._reload(error)
            raise _as_coordinator_error(error) from None
        for index, record in enumerate(records):
            context = ReplayContext(appended.first_offset + index, now, producer_id, producer_epoch)
            self.coordinator.replay(record, context)

    def _park(self, parked: Parked) -> Promise[Any]:
        displaced = self._parked.pop(parked.token, None)
        if displaced is not None:
            _settle(displaced, parked.displaced)
        promise = self._parked[parked.token] = Promise()
        promise.then(lambda done: self._forget_parked(parked.token, done))
        return promise

    def _forget_parked(self, token: Hashable, promise: Promise[Any]) -> None:
        if self._parked.get(token) is promise:
            del self._parked[token]

    def _complete(self, completion: Completion, committed: Promise[None] | None = None) -> None:
        """The request leaves the parking place now, so that a later one of the same token is not confused."""
        promise = self._parked.pop(completion.token, None)
        if promise is None:
            return
        if committed is None:
            _settle(promise, completion.reply)
        else:
            committed.then(partial(_settle_after, promise, completion.reply))

    def _perform(self, effects: list[Any], committed: Promise[None] | None) -> None:
        for effect in effects:
            assert self._performer is not None, f"nobody performs {effect!r}"
            perform = partial(self._performer, self, effect)
            if committed is None:
                perform()
            else:
                committed.then(partial(self._perform_if_committed, perform))

    def _perform_if_committed(self, perform: Callable[[], None], committed: Promise[None]) -> None:
        """If the records are never committed, neither is the decision, for which somebody may be parked."""
        error = committed.exception()
        if error is None:
            perform()
        elif self.loaded:
            assert isinstance(error, KafkaError)
            self._unload(error)

    def _timer_fired(self, key: Hashable) -> None:
        if not self.loaded:
            return
        try:
            self.check_online()
            self._bring_about(lambda: self.coordinator.on_timer(key, self._clock.now()))
        except KafkaError as error:
            logger.warning("%s: timer %r: %s", self._partition.log.directory, key, error)

    # -- loading ---------------------------------------------------------------------------------------------

    def _reload(self, cause: KafkaError) -> None:
        logger.error("%s: the coordinator starts anew: %s", self._partition.log.directory, cause)
        self._unload(cause)
        self._timers = TimerQueue(self._clock, self._timer_fired)
        self.coordinator = self._make_coordinator(self._batch_bytes_max)
        # What goes on after loading may meet the same failure at once; without a pause it would go round and round.
        self._loading = asyncio.get_running_loop().create_task(self._load(_RELOAD_PAUSE_SECONDS))

    def _unload(self, cause: KafkaError) -> None:
        self.loaded = False
        self._timers.close()
        self.coordinator.on_unloaded()
        self._fail_parked(_as_coordinator_error(cause))

    async def _load(self, pause_seconds: float = 0) -> None:
        await asyncio.sleep(pause_seconds)
        try:
            await self._replay_log()
        except (StorageError, OSError, ProtocolError) as error:
            logger.error("%s: the coordinator cannot read its log: %s", self._partition.log.directory, error)
            self._partition.go_offline(StorageError(str(error)))
        else:
            self._finish_loading()

    async def _replay_log(self) -> None:
        log = self._partition.log
        offset = log.log_start_offset
        now = self._clock.now()
        last_alive = now._replace(wall_ms=min(now.wall_ms, log.largest_timestamp))
        pace = Pace(self._turns)
        while offset < log.end_offset:
            found = log.read(offset, size_bytes_max=_LOAD_CHUNK_BYTES, end_offset=log.end_offset)
            if not found.records:
                break
            for _ in self._replay_batches(memoryview(found.records), last_alive):
                if pace.is_over:
                    await pace.rest()
            offset = found.next_offset

    def _finish_loading(self) -> None:
        self.loaded = True
        self._bring_about(lambda: self.coordinator.on_loaded(self._clock.now()))

    def _replay_batches(self, records: memoryview, now: Now) -> Iterator[None]:
        """Replays one record with each step."""
        position = 0
        while position < len(records):
            header = read_header(records, position)
            batch = records[position : position + header.size_bytes]
            position += header.size_bytes
            for record in iter_records(batch):
                if header.is_control:
                    self._replay_control(record, header.producer_id, header.producer_epoch)
                else:
                    owner = (header.producer_id, header.producer_epoch) if header.is_transactional else _NOBODY[:2]
                    self._replay_record(record, ReplayContext(record.offset, now, *owner))
                yield

    def _replay_control(self, record: Record, producer_id: int, producer_epoch: int) -> None:
        committed = decode_control_key(record.key) == ControlType.COMMIT
        self.coordinator.replay_marker(producer_id, producer_epoch, committed)

    def _replay_record(self, record: Record, context: ReplayContext) -> None:
        try:
            decoded = self.coordinator.decode(record.key or b"", record.value)
        except ProtocolError as error:
            logger.error("%s: offset %d is skipped: %s", self._partition.log.directory, record.offset, error)
            return
        if decoded is not None:
            self.coordinator.replay(decoded, context)

    def _fail_parked(self, error: KafkaError) -> None:
        parked, self._parked = self._parked, {}
        for promise in parked.values():
            _settle(promise, None, error)


def _settle_after(promise: Promise[Any], reply: Any, committed: Promise[None]) -> None:
    error = committed.exception()
    assert error is None or isinstance(error, KafkaError)
    _settle(promise, reply, error)


def _settle(promise: Promise[Any], reply: Any, error: KafkaError | None = None) -> None:
    if promise.done():
        return
    if error is not None:
        promise.set_exception(_as_coordinator_error(error))
    elif isinstance(reply, Refused):
        promise.set_exception(reply.error)
    else:
        promise.set_result(reply)


def _as_coordinator_error(error: KafkaError) -> KafkaError:
    """What a client of a coordinator understands of a failure of its partition: to try again, here or elsewhere."""
    if error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
        return KafkaError(ErrorCode.NOT_COORDINATOR, error.message)
    if error.code in (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT):
        return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message)
    return error
