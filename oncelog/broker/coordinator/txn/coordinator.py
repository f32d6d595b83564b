"""The transaction coordinator: one shard's transactional ids, as a pure state machine.

The record of PREPARE_COMMIT or PREPARE_ABORT is the decision: once it is safe, the outcome never changes, and
markers are written until every partition has one, across restarts. EndTxn is answered after that, so that what a
client committed is visible when it hears so, and its next transaction does not meet this one. Kafka answers
before the markers and lets the client run into CONCURRENT_TRANSACTIONS.

Two generations of clients are served side by side. Version 1 adds partitions explicitly and keeps its epoch;
version 2 (KIP-890) adds them by producing and gets a new epoch at every end, so that nothing late can be taken
for part of the next transaction.

    state.py        what is persistent, the table of transitions, the record
    transitions.py  from a state to the next
    memory.py       what is not persistent
    ends.py         what an EndTxn means
    requests.py     what is asked, and what is asked of the world outside
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterator
from itertools import islice
from typing import Any

from oncelog.broker.base.now import Now
from oncelog.broker.coordinator.contract import (
    CancelTimer,
    Completion,
    CoordinatorRecord,
    Parked,
    RecordsTooLarge,
    Refused,
    ReplayContext,
    Result,
    SetTimer,
)
from oncelog.broker.coordinator.effects import BatchLimit, no_limit
from oncelog.broker.coordinator.record_codec import batch_bytes_max, decode_record, encode_record, record_types
from oncelog.broker.coordinator.txn.ends import (
    Verdict,
    being_ended,
    check_connection,
    fenced,
    judge_end,
    not_mapped,
)
from oncelog.broker.coordinator.txn.memory import Client, LastSeen, TransactionMemory
from oncelog.broker.coordinator.txn.requests import (
    EndRequest,
    InitRequest,
    NeedsProducerId,
    TransactionSettings,
    WriteMarkers,
)
from oncelog.broker.coordinator.txn.state import (
    IDLE,
    NO_EPOCH,
    NO_PRODUCER_ID,
    PREPARED,
    ProducerIdentity,
    State,
    TopicPartition,
    Transaction,
    tombstone,
    transaction_from,
    transaction_record,
)
from oncelog.broker.coordinator.txn.transitions import (
    add,
    complete,
    decide,
    fence,
    initialize,
    needs_producer_id_to_complete,
)
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.transaction_records import TransactionLogKey, TransactionLogValue

logger = logging.getLogger(__name__)

EXPIRED_AT_ONCE_MAX = 1000
"""How many tombstones are written in one turn of the event loop."""
END_BYTES_MAX = 128
"""By how much the record of a decided or ended transaction can be larger than that of the open one."""
RECONNECT_MS = 10_000
"""How long the producer of an open transaction has at least to come back after the coordinator was loaded."""

_TYPES = record_types((TransactionLogKey, TransactionLogValue))
_EXPIRE = ("expire",)


class TransactionCoordinator:
    def __init__(
        self,
        settings: TransactionSettings,
        seen: dict[str, LastSeen] | None = None,
        batch_bytes_max: BatchLimit = no_limit,
    ) -> None:
        """`seen` is what a coordinator of this process knew of its clients before it had to start anew."""
        self._settings = settings
        self._batch_bytes_max = batch_bytes_max
        self._seen = {} if seen is None else seen
        self._transactions: dict[str, Transaction] = {}
        self._memories: dict[str, TransactionMemory] = {}
        self._loaded = False

    # -- requests --------------------------------------------------------------------------------------------

    def init_producer_id(
        self, request: InitRequest, now: Now, new_producer_id: int | None = None
    ) -> Result[ProducerIdentity]:
        """A producer starts, or recovers: whoever had the transactional id before is fenced, and what it left
        open is aborted first."""
        self._check_init(request)
        transactional_id = request.transactional_id
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            if new_producer_id is None:
                raise NeedsProducerId
            created = Transaction(
                transactional_id, new_producer_id, 0, request.timeout_ms, State.EMPTY, updated_ms=now.wall_ms
            )
            record = self._checked(transaction_record(created))
            self._note_client(self._memory(transactional_id), request.connection, request.client)
            return Result(created.identity, [record])
        memory = self._memory(transactional_id)
        expected = request.expected
        if expected is not None and (memory.is_being_taken_over or not memory.may_recover(transaction, expected)):
            raise fenced()
        # Whatever else comes from the former owner is known by its epoch from now on.
        self._note_client(memory, request.connection, request.client)
        if transaction.state in IDLE:
            initialized = self._initialize(transaction, request, now, new_producer_id)
            return Result(initialized.identity, [transaction_record(initialized)])
        memory.waiting = request
        parked = Parked(_init_token(transactional_id), Refused(being_ended()))
        if transaction.state in PREPARED:
            return Result(parked)
        memory.bumped(expected.epoch if expected else NO_EPOCH)
        return _decided(fence(transaction, now.wall_ms), parked)

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: frozenset[TopicPartition],
        now: Now,
        *,
        client_version: int = 0,
        connection: int = 0,
        client: Client | None = None,
    ) -> Result[None]:
        transaction = self._check_producer(transactional_id, producer)
        memory = self._memory(transactional_id)
        check_connection(memory, connection, client_version)
        if transaction.state in PREPARED:
            raise being_ended()
        begins = transaction.state != State.ONGOING
        records = []
        if begins or not partitions <= transaction.partitions:
            grown = add(transaction, partitions, client_version, now.wall_ms)
            records.append(self._checked(transaction_record(grown)))
        self._note_client(memory, connection if client_version < 2 else memory.seen.connection, client)
        if not begins:
            return Result(None, records)
        memory.new_epoch_used()
        timer = SetTimer(_timeout_key(transactional_id), now.steady_ms + transaction.timeout_ms)
        return Result(None, records, timers=[timer])

    def verify_producer(self, transactional_id: str, producer: ProducerIdentity) -> Transaction:
        """The producer's transaction, to see which partitions it has (KIP-890). Raises if it cannot have one."""
        transaction = self._check_producer(transactional_id, producer)
        if transaction.state in PREPARED:
            raise being_ended()
        return transaction

    def end(self, request: EndRequest, now: Now, new_producer_id: int | None = None) -> Result[ProducerIdentity]:
        """Commit or abort. A retry after an unknown outcome gets the answer that the first one would have got."""
        transactional_id = request.transactional_id
        transaction = self._check_known(transactional_id)
        memory = self._memory(transactional_id)
        verdict = judge_end(transaction, memory, request)
        if request.client_version < 2:
            memory.seen.connection = request.connection
        if verdict is Verdict.REPEAT:
            return Result(transaction.identity)
        # The request before a retry may still wait; whichever connection is alive gets the answer.
        parked = Parked(_end_token(transactional_id), Refused(being_ended()))
        if verdict is Verdict.WAIT:
            return Result(parked)
        next_producer_id = NO_PRODUCER_ID
        if request.client_version >= 2:
            if transaction.epoch_exhausted:
                if new_producer_id is None:
                    raise NeedsProducerId
                next_producer_id = new_producer_id
            memory.bumped(transaction.producer_epoch)
        state = State.PREPARE_COMMIT if request.commit else State.PREPARE_ABORT
        return _decided(decide(transaction, state, request.client_version, now.wall_ms, next_producer_id), parked)

    def awaits(self, effect: WriteMarkers) -> bool:
        """Whether these markers are still to be written. A late one would end the next transaction."""
        transaction = self._transactions.get(effect.transactional_id)
        return (
            transaction is not None
            and transaction.state == (State.PREPARE_COMMIT if effect.commit else State.PREPARE_ABORT)
            and transaction.identity == (effect.producer_id, effect.producer_epoch)
        )

    def markers_written(self, effect: WriteMarkers, now: Now, new_producer_id: int | None = None) -> Result[None]:
        """Every partition has its marker: the transaction is over, and who waited for that goes on."""
        if not self.awaits(effect):
            return Result(None)
        transactional_id = effect.transactional_id
        prepared = self._transactions[transactional_id]
        takes_new_id = needs_producer_id_to_complete(prepared)
        if takes_new_id and new_producer_id is None:
            raise NeedsProducerId
        completed = complete(prepared, new_producer_id, now.wall_ms)
        records = [transaction_record(completed)]
        completions = [Completion(_end_token(transactional_id), completed.identity, at_once=not takes_new_id)]
        waiting = self._memory(transactional_id).waiting
        if waiting is not None:
            reply: ProducerIdentity | Refused
            try:
                initialized = self._initialize(completed, waiting, now, new_producer_id)
            except KafkaError as error:
                reply = Refused(error)
            else:
                records.append(transaction_record(initialized))
                reply = initialized.identity
            self._memory(transactional_id).waiting = None
            completions.append(Completion(_init_token(transactional_id), reply))
        return Result(None, records, completions=completions)

    def describe(self, transactional_id: str) -> Transaction:
        if not transactional_id:
            raise _empty_id()
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"there is no transactional id {transactional_id!r}")
        return transaction

    def client_of(self, transactional_id: str) -> Client | None:
        """Who last began or went on with a transaction of this id, if that was since the start of this process."""
        seen = self._seen.get(transactional_id)
        return None if seen is None else seen.client

    def transactions(self) -> Iterator[Transaction]:
        return iter(self._transactions.values())

    # -- the coordinator contract ----------------------------------------------------------------------------

    def decode(self, key: bytes, value: bytes | None) -> CoordinatorRecord | None:
        return decode_record(_TYPES, key, value)

    def replay(self, record: CoordinatorRecord, context: ReplayContext) -> None:
        assert isinstance(record.key, TransactionLogKey)
        transactional_id = record.key.transactional_id
        if record.value is None:
            self._transactions.pop(transactional_id, None)
            self._memories.pop(transactional_id, None)
            if self._loaded:
                self._seen.pop(transactional_id, None)
            return
        assert isinstance(record.value, TransactionLogValue)
        former = self._transactions.get(transactional_id)
        transaction = transaction_from(record.key, record.value, context)
        self._transactions[transactional_id] = transaction
        if self._loaded:
            self._log_transition(former, transaction)
        elif former is not None:
            self._recall(former, transaction)

    def _log_transition(self, former: Transaction | None, transaction: Transaction) -> None:
        if logger.isEnabledFor(logging.DEBUG) and (former is None or former.state != transaction.state):
            logger.debug(
                "transactional id %s: %s -> %s, producer %d, epoch %d",
                transaction.transactional_id,
                None if former is None else former.state.name,
                transaction.state.name,
                transaction.producer_id,
                transaction.producer_epoch,
            )

    def replay_marker(self, *_: object) -> Result[None]:
        """Kafka writes one here if it is asked to. It ends nothing."""
        return Result(None)

    def on_loaded(self, now: Now) -> Result[None]:
        """Go on with what was decided, and with the clocks of what was not."""
        self._loaded = True
        timers: list[SetTimer | CancelTimer] = [SetTimer(_EXPIRE, now.steady_ms + self._settings.expiration_check_ms)]
        effects = []
        for transaction in self._transactions.values():
            if transaction.state in PREPARED:
                effects.append(_markers(transaction))
            elif transaction.state == State.ONGOING:
                deadline_ms = now.steady_ms + _time_left_ms(transaction, now.wall_ms)
                timers.append(SetTimer(_timeout_key(transaction.transactional_id), deadline_ms))
        return Result(None, timers=timers, effects=effects)

    def on_timer(self, key: Hashable, now: Now) -> Result[None]:
        if key == _EXPIRE:
            return self._expire(now)
        assert isinstance(key, tuple)
        transaction = self._transactions.get(key[1])
        if transaction is None or transaction.state != State.ONGOING:
            return Result(None)
        # The producer may come back and learn that it was aborted, unlike one that was fenced (KIP-588).
        self._memory(transaction.transactional_id).bumped(transaction.producer_epoch, timed_out=True)
        return _decided(fence(transaction, now.wall_ms), None)

    def on_unloaded(self) -> None:
        self._memories.clear()

    # -- checks ----------------------------------------------------------------------------------------------

    def _check_init(self, request: InitRequest) -> None:
        if not request.transactional_id:
            raise _empty_id()
        if not 0 < request.timeout_ms <= self._settings.timeout_ms_max:
            raise KafkaError(
                ErrorCode.INVALID_TRANSACTION_TIMEOUT,
                f"transaction.timeout.ms={request.timeout_ms} is not within 1 and the broker's "
                f"transaction.max.timeout.ms={self._settings.timeout_ms_max}",
            )

    def _checked(self, record: CoordinatorRecord) -> CoordinatorRecord:
        """RecordsTooLarge unless the log takes it, and the records of the same transaction's end as well."""
        size_bytes = batch_bytes_max([encode_record(record)])
        size_bytes_max = self._batch_bytes_max() - END_BYTES_MAX
        if size_bytes > size_bytes_max:
            raise RecordsTooLarge(size_bytes, size_bytes_max)
        return record

    def _check_known(self, transactional_id: str) -> Transaction:
        if not transactional_id:
            raise _empty_id()
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            raise not_mapped()
        return transaction

    def _check_producer(self, transactional_id: str, producer: ProducerIdentity) -> Transaction:
        transaction = self._check_known(transactional_id)
        if transaction.producer_id != producer.producer_id:
            raise not_mapped()
        if transaction.producer_epoch != producer.epoch:
            raise fenced()
        return transaction

    # -- transitions -----------------------------------------------------------------------------------------

    def _memory(self, transactional_id: str) -> TransactionMemory:
        memory = self._memories.get(transactional_id)
        if memory is None:
            seen = self._seen.setdefault(transactional_id, LastSeen())
            memory = self._memories[transactional_id] = TransactionMemory(seen)
        return memory

    def _note_client(self, memory: TransactionMemory, connection: int, client: Client | None) -> None:
        memory.seen.connection = connection
        if client is not None:
            memory.seen.client = client

    def _recall(self, former: Transaction, transaction: Transaction) -> None:
        """What can be known of the memory that a restart has wiped out."""
        if transaction.state == State.ONGOING:
            self._memory(transaction.transactional_id).new_epoch_used()
        elif transaction.state in PREPARED and transaction.has_followed(former.identity):
            self._memory(transaction.transactional_id).bumped(former.producer_epoch)

    def _initialize(
        self, transaction: Transaction, request: InitRequest, now: Now, new_producer_id: int | None
    ) -> Transaction:
        """Give the producer its epoch: a new one, or the present one again if the producer has not heard of it."""
        memory = self._memory(transaction.transactional_id)
        expected = request.expected
        identity = transaction.identity
        if expected is not None and expected != identity:
            if not memory.may_recover(transaction, expected):
                raise fenced()
            return initialize(transaction, identity, request.timeout_ms, now.wall_ms)
        if transaction.epoch_exhausted:
            if new_producer_id is None:
                raise NeedsProducerId
            identity = ProducerIdentity(new_producer_id, 0)
        else:
            identity = ProducerIdentity(transaction.producer_id, transaction.producer_epoch + 1)
        memory.bumped(transaction.producer_epoch if expected else NO_EPOCH)
        return initialize(transaction, identity, request.timeout_ms, now.wall_ms)

    def _expire(self, now: Now) -> Result[None]:
        """Forget transactional ids that nobody has used for long; their producers start anew if they come back."""
        expired = list(
            islice(
                (
                    transaction.transactional_id
                    for transaction in self._transactions.values()
                    if transaction.state in IDLE and now.steady_ms - transaction.used_ms >= self._settings.expiration_ms
                ),
                EXPIRED_AT_ONCE_MAX,
            )
        )
        pause_ms = 0 if len(expired) == EXPIRED_AT_ONCE_MAX else self._settings.expiration_check_ms
        timers: list[SetTimer | CancelTimer] = [SetTimer(_EXPIRE, now.steady_ms + pause_ms)]
        tombstones = [tombstone(transactional_id) for transactional_id in expired]
        return Result(None, tombstones, timers=timers, divisible=True)


def _decided(prepared: Transaction, reply: Parked | None) -> Result[Any]:
    timers: list[SetTimer | CancelTimer] = [CancelTimer(_timeout_key(prepared.transactional_id))]
    return Result(reply, [transaction_record(prepared)], timers=timers, effects=[_markers(prepared)])


def _time_left_ms(transaction: Transaction, wall_ms: int) -> int:
    """What an open transaction that was found in the log has left of its timeout.

    If it seems to have begun in the future, or to be overdue, the wall clock was set or the broker was down: nobody
    knows how long its producer could use it, so it gets its whole timeout. Otherwise it gets at least the time that
    the producer needs to find the coordinator again.
    """
    elapsed_ms = wall_ms - transaction.started_ms
    if not 0 <= elapsed_ms < transaction.timeout_ms:
        return transaction.timeout_ms
    return max(transaction.timeout_ms - elapsed_ms, min(transaction.timeout_ms, RECONNECT_MS))


def _markers(prepared: Transaction) -> WriteMarkers:
    return WriteMarkers(
        prepared.transactional_id,
        prepared.producer_id,
        prepared.producer_epoch,
        prepared.state == State.PREPARE_COMMIT,
        prepared.partitions,
        prepared.client_version,
    )


def _timeout_key(transactional_id: str) -> tuple[str, str]:
    return ("timeout", transactional_id)


def _init_token(transactional_id: str) -> tuple[str, str]:
    return ("init", transactional_id)


def _end_token(transactional_id: str) -> tuple[str, str]:
    return ("end", transactional_id)


def _empty_id() -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
