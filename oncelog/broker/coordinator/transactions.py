"""The transaction coordinator: one shard's transactional ids, as a pure state machine.

The record of PREPARE_COMMIT or PREPARE_ABORT is the decision: once it is safe, the outcome never changes, and
markers are written until every partition has one, across restarts. EndTxn is answered after that, so that what a
client committed is visible when it hears so, and its next transaction does not meet this one. Kafka answers
before the markers and lets the client run into CONCURRENT_TRANSACTIONS.

Two generations of clients are served side by side. Version 1 adds partitions explicitly and keeps its epoch;
version 2 (KIP-890) adds them by producing and gets a new epoch at every end, so that nothing late can be taken
for part of the next transaction. For version 1 a late request is known by its connection: one that is older than
the newest that was used for the transactional id is fenced (KAFKA-17754).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple

from oncelog.broker.coordinator.contract import (
    CancelTimer,
    Completion,
    CoordinatorRecord,
    Parked,
    Refused,
    ReplayContext,
    Result,
    SetTimer,
)
from oncelog.broker.coordinator.record_codec import decode_record, record_types
from oncelog.broker.coordinator.transaction_requests import (
    EndRequest,
    InitRequest,
    NeedsProducerId,
    ProducerIdentity,
    TransactionSettings,
    WriteMarkers,
)
from oncelog.broker.coordinator.transaction_state import (
    COMPLETE,
    IDLE,
    NO_EPOCH,
    NO_PRODUCER_ID,
    PREPARED,
    State,
    TopicPartition,
    Transaction,
    tombstone,
    transaction_from,
    transaction_record,
)
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.transaction_records import TransactionLogKey, TransactionLogValue

_TYPES = record_types((TransactionLogKey, TransactionLogValue))
_EXPIRE = ("expire",)
_FENCED = KafkaError(ErrorCode.PRODUCER_FENCED, "a newer producer uses this transactional id")


class TransactionCoordinator:
    def __init__(self, settings: TransactionSettings) -> None:
        self._settings = settings
        self._transactions: dict[str, Transaction] = {}
        # Volatile, and gone after a restart:
        self._last_epochs: dict[str, int] = {}
        """The epoch before the last bump, which the client may still have if our answer did not reach it."""
        self._waiting_inits: dict[str, InitRequest] = {}
        self._newest_connections: dict[str, int] = {}

    # -- requests --------------------------------------------------------------------------------------------

    def init_producer_id(
        self, request: InitRequest, now_ms: int, new_producer_id: int | None = None
    ) -> Result[ProducerIdentity]:
        """A producer starts, or recovers: whoever had the transactional id before is fenced, and what it left
        open is aborted first."""
        if not request.transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
        if not 0 < request.timeout_ms <= self._settings.timeout_ms_max:
            raise KafkaError(
                ErrorCode.INVALID_TRANSACTION_TIMEOUT,
                f"transaction.timeout.ms={request.timeout_ms} is not within 1 and the broker's "
                f"transaction.max.timeout.ms={self._settings.timeout_ms_max}",
            )
        transactional_id = request.transactional_id
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            if new_producer_id is None:
                raise NeedsProducerId
            self._use_connection(transactional_id, request.connection)
            created = Transaction(
                transactional_id, new_producer_id, 0, request.timeout_ms, State.EMPTY, updated_ms=now_ms
            )
            return self._initialized(created)
        self._check_expected(transaction, request)
        self._use_connection(transactional_id, request.connection)
        if transaction.state in IDLE:
            return self._initialize(transaction, request, now_ms, new_producer_id)
        self._waiting_inits[transactional_id] = request
        parked = Parked(("init", transactional_id), Refused(KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)))
        if transaction.state in PREPARED:
            return Result(parked)
        return self._fence_and_abort(transaction, now_ms, parked, last_epoch=NO_EPOCH)

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: frozenset[TopicPartition],
        now_ms: int,
        *,
        client_version: int = 1,
        connection: int = 0,
    ) -> Result[None]:
        transaction = self._check_producer(transactional_id, producer)
        self._check_connection(transactional_id, connection)
        if transaction.state in PREPARED:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, "the former transaction is being ended")
        self._use_connection(transactional_id, connection)
        if transaction.state == State.ONGOING and partitions <= transaction.partitions:
            return Result(None)
        started_ms = transaction.started_ms if transaction.state == State.ONGOING else now_ms
        known = transaction.partitions if transaction.state == State.ONGOING else frozenset[TopicPartition]()
        ongoing = transaction.move(
            State.ONGOING,
            now_ms,
            partitions=known | partitions,
            started_ms=started_ms,
            client_version=client_version,
        )
        timers: list[SetTimer | CancelTimer] = []
        if transaction.state != State.ONGOING:
            timers.append(SetTimer(_timeout_key(transactional_id), started_ms + transaction.timeout_ms))
        return Result(None, [transaction_record(ongoing)], timers=timers)

    def verify_partitions(
        self, transactional_id: str, producer: ProducerIdentity, partitions: frozenset[TopicPartition]
    ) -> None:
        """Whether a producer may write to partitions as part of its transaction (KIP-890). Raises if not."""
        transaction = self._check_producer(transactional_id, producer)
        if transaction.state in PREPARED:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, "the former transaction is being ended")
        if transaction.state != State.ONGOING or not partitions <= transaction.partitions:
            raise KafkaError(ErrorCode.TRANSACTION_ABORTABLE, "the partition is not part of the transaction")

    def end(self, request: EndRequest, now_ms: int, new_producer_id: int | None = None) -> Result[ProducerIdentity]:
        """Commit or abort. A retry after an unknown outcome gets the answer that the first one would have got."""
        transactional_id = request.transactional_id
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
        transaction = self._transactions.get(transactional_id)
        if transaction is None or not self._knows_producer(transaction, request):
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING, "the producer id is not that of the transactional id"
            )
        if not self._is_valid_epoch(transaction, request):
            raise _FENCED
        self._check_connection(transactional_id, request.connection)
        self._use_connection(transactional_id, request.connection)
        token = ("end", transactional_id)
        prepare = State.PREPARE_COMMIT if request.commit else State.PREPARE_ABORT
        complete = State.COMPLETE_COMMIT if request.commit else State.COMPLETE_ABORT
        if transaction.state == State.ONGOING:
            return self._prepare(transaction, prepare, request.client_version, now_ms, new_producer_id, Parked(token))
        if transaction.state == prepare:
            # The first request may still wait; whichever connection is alive gets the answer.
            return Result(Parked(token, Refused(KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS))))
        if transaction.state == complete and self._is_retry(transaction, request):
            return Result(ProducerIdentity(transaction.producer_id, transaction.producer_epoch))
        if self._is_empty_abort(transaction, request):
            return self._prepare(transaction, prepare, request.client_version, now_ms, new_producer_id, Parked(token))
        raise KafkaError(ErrorCode.INVALID_TXN_STATE, f"the transaction is {transaction.state.title}")

    def markers_written(self, effect: WriteMarkers, now_ms: int) -> Result[None]:
        """Every partition has its marker: the transaction is over, and who waited for that goes on."""
        transactional_id = effect.transactional_id
        transaction = self._transactions.get(transactional_id)
        expected = State.PREPARE_COMMIT if effect.commit else State.PREPARE_ABORT
        if (
            transaction is None
            or transaction.state != expected
            or (transaction.producer_id, transaction.producer_epoch) != (effect.producer_id, effect.producer_epoch)
        ):
            return Result(None)
        completed = _completed(transaction, now_ms)
        reply = ProducerIdentity(completed.producer_id, completed.producer_epoch)
        records = [transaction_record(completed)]
        completions = [Completion(("end", transactional_id), reply, at_once=True)]
        waiting = self._waiting_inits.pop(transactional_id, None)
        if waiting is not None:
            try:
                initialized = self._initialize(completed, waiting, now_ms, None)
            except NeedsProducerId:
                retry = Refused(KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS))
                completions.append(Completion(("init", transactional_id), retry))
            except KafkaError as error:
                completions.append(Completion(("init", transactional_id), Refused(error)))
            else:
                records += initialized.records
                completions.append(Completion(("init", transactional_id), initialized.reply))
        return Result(None, records, completions=completions)

    def describe(self, transactional_id: str) -> Transaction:
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"there is no transactional id {transactional_id!r}")
        return transaction

    def transactions(self) -> Iterator[Transaction]:
        return iter(self._transactions.values())

    # -- the coordinator contract ----------------------------------------------------------------------------

    def decode(self, key: bytes, value: bytes | None) -> CoordinatorRecord | None:
        return decode_record(_TYPES, key, value)

    def replay(self, record: CoordinatorRecord, _: ReplayContext) -> None:
        assert isinstance(record.key, TransactionLogKey)
        transactional_id = record.key.transactional_id
        if record.value is None:
            self._transactions.pop(transactional_id, None)
            self._last_epochs.pop(transactional_id, None)
            self._newest_connections.pop(transactional_id, None)
        else:
            assert isinstance(record.value, TransactionLogValue)
            self._transactions[transactional_id] = transaction_from(record.key, record.value)

    def replay_marker(self, producer_id: int, producer_epoch: int, committed: bool) -> Result[None]:
        raise AssertionError(f"a marker of producer {producer_id} in the transaction log")

    def on_loaded(self, now_ms: int) -> Result[None]:
        """Go on with what was decided, and with the clocks of what was not."""
        timers: list[SetTimer | CancelTimer] = [SetTimer(_EXPIRE, now_ms + self._settings.expiration_check_ms)]
        effects = []
        for transaction in self._transactions.values():
            if transaction.state in PREPARED:
                effects.append(_markers(transaction))
            elif transaction.state == State.ONGOING:
                deadline_ms = transaction.started_ms + transaction.timeout_ms
                timers.append(SetTimer(_timeout_key(transaction.transactional_id), deadline_ms))
        return Result(None, timers=timers, effects=effects)

    def on_timer(self, key: Hashable, now_ms: int) -> Result[None]:
        if key == _EXPIRE:
            return self._expire(now_ms)
        assert isinstance(key, tuple)
        transaction = self._transactions.get(key[1])
        if transaction is None or transaction.state != State.ONGOING:
            return Result(None)
        # The producer may come back and learn that it was aborted, unlike one that was fenced (KIP-588).
        return self._fence_and_abort(transaction, now_ms, None, last_epoch=transaction.producer_epoch)

    def on_unloaded(self) -> None:
        self._waiting_inits.clear()

    # -- checks ----------------------------------------------------------------------------------------------

    def _check_producer(self, transactional_id: str, producer: ProducerIdentity) -> Transaction:
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
        transaction = self._transactions.get(transactional_id)
        if transaction is None or transaction.producer_id != producer.producer_id:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING, "the producer id is not that of the transactional id"
            )
        if transaction.producer_epoch != producer.epoch:
            raise _FENCED
        return transaction

    def _check_expected(self, transaction: Transaction, request: InitRequest) -> None:
        expected = request.expected
        if expected is None or expected.producer_id == transaction.producer_id:
            return
        rotated = expected.producer_id == transaction.previous_producer_id and expected.epoch >= 32766
        if not rotated:
            raise _FENCED

    def _check_connection(self, transactional_id: str, connection: int) -> None:
        if connection < self._newest_connections.get(transactional_id, 0):
            raise KafkaError(ErrorCode.PRODUCER_FENCED, "a newer connection was used for this transactional id")

    def _use_connection(self, transactional_id: str, connection: int) -> None:
        if connection:
            self._newest_connections[transactional_id] = connection

    def _knows_producer(self, transaction: Transaction, request: EndRequest) -> bool:
        return transaction.producer_id == request.producer_id or _is_retry_after_rotation(transaction, request)

    def _is_valid_epoch(self, transaction: Transaction, request: EndRequest) -> bool:
        if self._is_retry(transaction, request):
            return True
        if transaction.bumps_epoch and transaction.state in PREPARED:
            return False
        return transaction.producer_epoch == request.epoch

    def _is_retry(self, transaction: Transaction, request: EndRequest) -> bool:
        """Whether this asks for the end that has already been decided.

        With epochs that are bumped, the request has the epoch before the bump. Without, it has the same epoch,
        and a transaction of that epoch that is over can only be the one it means."""
        if _is_retry_after_rotation(transaction, request):
            return True
        bumped = transaction.producer_epoch == request.epoch + 1
        if transaction.bumps_epoch:
            return bumped and transaction.state in PREPARED | COMPLETE
        timed_out = bumped and not request.commit and self._last_epochs.get(request.transactional_id) == request.epoch
        same = transaction.producer_epoch == request.epoch
        return (same and transaction.state in COMPLETE) or (
            timed_out and transaction.state in (State.PREPARE_ABORT, State.COMPLETE_ABORT)
        )

    def _is_empty_abort(self, transaction: Transaction, request: EndRequest) -> bool:
        """A version 2 client cannot know whether any partition was added; aborting nothing is fine for it."""
        return request.client_version >= 2 and not request.commit and transaction.state in IDLE

    # -- transitions -----------------------------------------------------------------------------------------

    def _initialize(
        self, transaction: Transaction, request: InitRequest, now_ms: int, new_producer_id: int | None
    ) -> Result[ProducerIdentity]:
        """Give the producer its epoch: a new one, or the present one again if only the answer got lost."""
        transactional_id = transaction.transactional_id
        expected = request.expected
        if expected is not None and expected.epoch != transaction.producer_epoch:
            rotated = expected.producer_id == transaction.previous_producer_id != transaction.producer_id
            if not rotated and self._last_epochs.get(transactional_id) != expected.epoch:
                raise _FENCED
            return self._initialized(_emptied(transaction, request, now_ms))
        if transaction.epoch_exhausted:
            if new_producer_id is None:
                raise NeedsProducerId
            self._last_epochs[transactional_id] = transaction.producer_epoch if expected else NO_EPOCH
            rotated_transaction = _emptied(transaction, request, now_ms)._replace(
                producer_id=new_producer_id, producer_epoch=0, previous_producer_id=transaction.producer_id
            )
            return self._initialized(rotated_transaction)
        self._last_epochs[transactional_id] = transaction.producer_epoch if expected else NO_EPOCH
        bumped = _emptied(transaction, request, now_ms)._replace(producer_epoch=transaction.producer_epoch + 1)
        return self._initialized(bumped)

    def _initialized(self, transaction: Transaction) -> Result[ProducerIdentity]:
        reply = ProducerIdentity(transaction.producer_id, transaction.producer_epoch)
        return Result(reply, [transaction_record(transaction)])

    def _prepare(
        self,
        transaction: Transaction,
        state: State,
        client_version: int,
        now_ms: int,
        new_producer_id: int | None,
        reply: Parked,
    ) -> Result[ProducerIdentity]:
        """Decide. Version 2 bumps the epoch here, and takes a new producer id along when epochs run out."""
        changes: dict[str, object] = {"client_version": client_version}
        if transaction.state != State.ONGOING:
            changes |= {"partitions": frozenset(), "started_ms": now_ms}
        if client_version >= 2:
            if transaction.epoch_exhausted:
                if new_producer_id is None:
                    raise NeedsProducerId
                changes["next_producer_id"] = new_producer_id
            changes["producer_epoch"] = transaction.producer_epoch + 1
            self._last_epochs[transaction.transactional_id] = transaction.producer_epoch
        return self._decided(transaction.move(state, now_ms, **changes), reply)

    def _fence_and_abort(
        self, transaction: Transaction, now_ms: int, reply: Parked | None, last_epoch: int
    ) -> Result[Any]:
        """Abort on our own account, with an epoch that the producer does not have."""
        self._last_epochs[transaction.transactional_id] = last_epoch
        aborted = transaction.move(State.PREPARE_ABORT, now_ms, producer_epoch=transaction.producer_epoch + 1)
        return self._decided(aborted, reply)

    def _decided(self, prepared: Transaction, reply: Parked | None) -> Result[Any]:
        timers: list[SetTimer | CancelTimer] = [CancelTimer(_timeout_key(prepared.transactional_id))]
        records = [transaction_record(prepared)]
        return Result(reply, records, timers=timers, effects=[_markers(prepared)])

    def _expire(self, now_ms: int) -> Result[None]:
        """Forget transactional ids that nobody has used for long; their producers start anew if they come back."""
        expired = [
            transaction.transactional_id
            for transaction in self._transactions.values()
            if transaction.state in IDLE and now_ms - transaction.updated_ms >= self._settings.expiration_ms
        ]
        timers: list[SetTimer | CancelTimer] = [SetTimer(_EXPIRE, now_ms + self._settings.expiration_check_ms)]
        return Result(None, [tombstone(transactional_id) for transactional_id in expired], timers=timers)


def _timeout_key(transactional_id: str) -> tuple[str, str]:
    return ("timeout", transactional_id)


def _markers(prepared: Transaction) -> WriteMarkers:
    return WriteMarkers(
        prepared.transactional_id,
        prepared.producer_id,
        prepared.producer_epoch,
        prepared.state == State.PREPARE_COMMIT,
        prepared.partitions,
        prepared.client_version,
    )


def _completed(prepared: Transaction, now_ms: int) -> Transaction:
    state = State.COMPLETE_COMMIT if prepared.state == State.PREPARE_COMMIT else State.COMPLETE_ABORT
    completed = prepared.move(state, now_ms, partitions=frozenset())
    if prepared.next_producer_id == NO_PRODUCER_ID:
        return completed
    return completed._replace(
        producer_id=prepared.next_producer_id,
        producer_epoch=0,
        previous_producer_id=prepared.producer_id,
        next_producer_id=NO_PRODUCER_ID,
    )


def _emptied(transaction: Transaction, request: InitRequest, now_ms: int) -> Transaction:
    return transaction.move(State.EMPTY, now_ms, timeout_ms=request.timeout_ms, partitions=frozenset(), started_ms=-1)


def _is_retry_after_rotation(transaction: Transaction, request: EndRequest) -> bool:
    return (
        transaction.bumps_epoch
        and transaction.state in COMPLETE
        and transaction.previous_producer_id == request.producer_id
        and request.epoch == 32766
        and transaction.producer_epoch == 0
    )
