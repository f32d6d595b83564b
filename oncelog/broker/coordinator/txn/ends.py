"""What an EndTxn means in the state that the transaction is in: a decision, a retry, or a mistake.

A retry after an unknown outcome has to get the answer that the first request would have got, and one that comes so
late that it meets the next transaction must not end that. Version 2 tells them apart by the epoch, which every end
bumps: a retry has the epoch before. Version 1 has only one epoch, so there a request in the state Complete is a
retry, and one that is late is known by its connection, which is older than the newest of its producer
(KAFKA-17754). A version 2 client begins the epoch of its answer with sequence 0, so it never gets one that was used.
"""

from __future__ import annotations

from enum import Enum, auto

from oncelog.broker.coordinator.txn.memory import TransactionMemory
from oncelog.broker.coordinator.txn.requests import EndRequest
from oncelog.broker.coordinator.txn.state import COMPLETE, IDLE, PREPARED, State, Transaction
from oncelog.protocol.errors import ErrorCode, KafkaError

_ABORTED = (State.PREPARE_ABORT, State.COMPLETE_ABORT)


class Verdict(Enum):
    DECIDE = auto()
    WAIT = auto()
    """It has been decided so, and its markers are on their way."""
    REPEAT = auto()
    """It is over: say once more how the producer goes on."""


def judge_end(transaction: Transaction, memory: TransactionMemory, request: EndRequest) -> Verdict:
    """KafkaError where the request is refused."""
    is_current = request.producer == transaction.identity
    is_former = not is_current and _is_of_former_epoch(transaction, memory, request)
    if not is_current and not is_former:
        raise fenced() if request.producer.producer_id == transaction.producer_id else not_mapped()
    check_connection(memory, request.connection, request.client_version)
    state = transaction.state
    if transaction.bumps_epoch and state in PREPARED and is_current:
        # The client cannot have this epoch yet.
        raise fenced()
    if request.client_version >= 2 and state in PREPARED and is_current:
        # Decided by version 1, which keeps the epoch. Version 2 must not get it as its next one.
        raise being_ended()
    if state == State.ONGOING:
        return Verdict.DECIDE
    if state == (State.PREPARE_COMMIT if request.commit else State.PREPARE_ABORT):
        return Verdict.WAIT
    is_retry = is_former or request.client_version < 2
    if is_retry and state == (State.COMPLETE_COMMIT if request.commit else State.COMPLETE_ABORT):
        return Verdict.REPEAT
    if is_former and memory.is_being_taken_over:
        raise fenced()
    if is_former and memory.timed_out:
        raise KafkaError(ErrorCode.TRANSACTION_ABORTABLE, "the transaction has exceeded its timeout and was aborted")
    if is_current and request.client_version >= 2 and not request.commit and state in IDLE:
        # A version 2 client cannot know whether it has added any partition; aborting nothing is fine.
        return Verdict.DECIDE
    raise KafkaError(ErrorCode.INVALID_TXN_STATE, f"the transaction is {state.title}")


def fenced() -> KafkaError:
    return KafkaError(ErrorCode.PRODUCER_FENCED, "a newer producer uses this transactional id")


def being_ended() -> KafkaError:
    return KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, "the former transaction is being ended")


def not_mapped() -> KafkaError:
    return KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "the producer id is not that of the transactional id")


def check_connection(memory: TransactionMemory, connection: int, client_version: int) -> None:
    if client_version < 2 and connection < memory.seen.connection:
        raise KafkaError(ErrorCode.PRODUCER_FENCED, "a newer connection was used for this transactional id")


def _is_of_former_epoch(transaction: Transaction, memory: TransactionMemory, request: EndRequest) -> bool:
    if transaction.state not in PREPARED | COMPLETE or not transaction.has_followed(request.producer):
        return False
    if transaction.bumps_epoch:
        return True
    # A version 1 producer only loses its epoch by the timeout; it may then abort what is aborted already (KIP-588).
    return transaction.state in _ABORTED and not request.commit and memory.last_epoch == request.producer.epoch
