"""The transitions of a transactional id: each takes a state and gives the next, and changes nothing itself."""

from __future__ import annotations

from oncelog.broker.coordinator.txn.state import (
    EPOCH_MAX,
    NO_PRODUCER_ID,
    TRANSITIONS,
    ProducerIdentity,
    State,
    TopicPartition,
    Transaction,
)


def initialize(transaction: Transaction, identity: ProducerIdentity, timeout_ms: int, wall_ms: int) -> Transaction:
    """A producer starts with this identity; nothing is open."""
    empty = _move(transaction, State.EMPTY, wall_ms, timeout_ms=timeout_ms, partitions=frozenset(), started_ms=-1)
    return _identify(empty, identity)


def add(
    transaction: Transaction, partitions: frozenset[TopicPartition], client_version: int, wall_ms: int
) -> Transaction:
    """The transaction begins, or grows."""
    begins = transaction.state != State.ONGOING
    return _move(
        transaction,
        State.ONGOING,
        wall_ms,
        partitions=partitions if begins else transaction.partitions | partitions,
        started_ms=wall_ms if begins else transaction.started_ms,
        client_version=client_version,
    )


def decide(
    transaction: Transaction, state: State, client_version: int, wall_ms: int, next_producer_id: int
) -> Transaction:
    """The client ends its transaction, be it an empty one. Version 2 gets another epoch with every end."""
    if transaction.state != State.ONGOING:
        transaction = transaction._replace(partitions=frozenset(), started_ms=wall_ms)
    return _move(
        transaction,
        state,
        wall_ms,
        client_version=client_version,
        producer_epoch=transaction.producer_epoch + (client_version >= 2),
        next_producer_id=next_producer_id,
    )


def fence(transaction: Transaction, wall_ms: int) -> Transaction:
    """We abort it on our own account, with an epoch that the producer does not have."""
    return _move(transaction, State.PREPARE_ABORT, wall_ms, producer_epoch=transaction.producer_epoch + 1)


def complete(prepared: Transaction, new_producer_id: int | None, wall_ms: int) -> Transaction:
    """All markers are written. Where epochs have run out, the producer goes on with a new id."""
    state = State.COMPLETE_COMMIT if prepared.state == State.PREPARE_COMMIT else State.COMPLETE_ABORT
    completed = _move(prepared, state, wall_ms, partitions=frozenset(), next_producer_id=NO_PRODUCER_ID)
    if prepared.next_producer_id != NO_PRODUCER_ID:
        new_producer_id = prepared.next_producer_id
    if prepared.producer_epoch < EPOCH_MAX:
        return completed
    assert new_producer_id is not None, f"{prepared.transactional_id} has no epochs left"
    return _identify(completed, ProducerIdentity(new_producer_id, 0))


def needs_producer_id_to_complete(prepared: Transaction) -> bool:
    """Whether it was fenced with the very last epoch, which no client may have."""
    return prepared.producer_epoch == EPOCH_MAX and prepared.next_producer_id == NO_PRODUCER_ID


def _identify(transaction: Transaction, identity: ProducerIdentity) -> Transaction:
    previous = transaction.previous_producer_id
    if identity.producer_id != transaction.producer_id:
        previous = transaction.producer_id
    return transaction._replace(
        producer_id=identity.producer_id, producer_epoch=identity.epoch, previous_producer_id=previous
    )


def _move(transaction: Transaction, state: State, wall_ms: int, **changes: object) -> Transaction:
    assert state in TRANSITIONS[transaction.state], (
        f"{transaction.transactional_id}: from {transaction.state.name} to {state.name}"
    )
    return transaction._replace(state=state, updated_ms=wall_ms, **changes)  # type: ignore[arg-type]
