"""A transactional id's state: what it is made of, which transitions there are, and its record in the log."""

from __future__ import annotations

from collections import defaultdict
from enum import IntEnum

from oncelog.broker.coordinator.contract import CoordinatorRecord, ReplayContext
from oncelog.named_tuple import NamedTuple
from oncelog.protocol.messages.transaction_records import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)

NO_PRODUCER_ID = -1
NO_EPOCH = -1
EPOCH_MAX = 32767
EPOCH_LAST_OF_CLIENTS = EPOCH_MAX - 1
VALUE_VERSION = 1

TopicPartition = tuple[str, int]


class ProducerIdentity(NamedTuple):
    producer_id: int
    epoch: int


class State(IntEnum):
    """With the numbers that stand in the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        """As Kafka's tools print it: `PrepareCommit`."""
        return "".join(word.capitalize() for word in self.name.split("_"))


TRANSITIONS: dict[State, frozenset[State]] = {
    State.EMPTY: frozenset((State.EMPTY, State.ONGOING, State.PREPARE_ABORT, State.DEAD)),
    State.ONGOING: frozenset((State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT)),
    State.PREPARE_COMMIT: frozenset((State.COMPLETE_COMMIT,)),
    State.PREPARE_ABORT: frozenset((State.COMPLETE_ABORT,)),
    State.COMPLETE_COMMIT: frozenset((State.EMPTY, State.ONGOING, State.PREPARE_ABORT, State.DEAD)),
    State.COMPLETE_ABORT: frozenset((State.EMPTY, State.ONGOING, State.PREPARE_ABORT, State.DEAD)),
    State.DEAD: frozenset(),
    State.PREPARE_EPOCH_FENCE: frozenset(),
}
"""From a state to those that may follow. The diagram in ARCHITECTURE.md is drawn from this table.

Kafka's PrepareEpochFence is never written to its log: fencing the epoch and PREPARE_ABORT are one record."""

PREPARED = frozenset((State.PREPARE_COMMIT, State.PREPARE_ABORT))
COMPLETE = frozenset((State.COMPLETE_COMMIT, State.COMPLETE_ABORT))
IDLE = COMPLETE | {State.EMPTY}


class Transaction(NamedTuple):
    """All that is persistent of a transactional id. A transition makes the next one."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: State
    partitions: frozenset[TopicPartition] = frozenset()
    started_ms: int = -1
    """Wall-clock time, as is `updated_ms`."""
    updated_ms: int = -1
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    client_version: int = 0
    """2 if the client that last changed the state bumps the epoch at every end (KIP-890), otherwise 0, as in Kafka."""
    record_offset: int = -1
    """Where its record is in the log."""
    used_ms: int = 0
    """When it was last updated, in steady time, by which it expires."""

    @property
    def identity(self) -> ProducerIdentity:
        return ProducerIdentity(self.producer_id, self.producer_epoch)

    @property
    def bumps_epoch(self) -> bool:
        return self.client_version >= 2

    @property
    def epoch_exhausted(self) -> bool:
        """The very last epoch is kept back, so that a producer can always be fenced."""
        return self.producer_epoch >= EPOCH_LAST_OF_CLIENTS

    def has_followed(self, former: ProducerIdentity) -> bool:
        """Whether this identity is the next one after `former`: an epoch more, or a new id after its last epoch."""
        if former.producer_id == self.producer_id:
            return former.epoch == self.producer_epoch - 1
        return (
            former.producer_id == self.previous_producer_id
            and former.epoch == EPOCH_LAST_OF_CLIENTS
            and self.producer_epoch == 0
        )


def transaction_record(transaction: Transaction) -> CoordinatorRecord:
    topics: defaultdict[str, list[int]] = defaultdict(list)
    for topic, partition in transaction.partitions:
        topics[topic].append(partition)
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=None
        if transaction.state == State.EMPTY
        else [PartitionsSchema(topic=topic, partition_ids=sorted(ids)) for topic, ids in sorted(topics.items())],
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
        client_transaction_version=transaction.client_version,
    )
    return CoordinatorRecord(_key(transaction.transactional_id), value, VALUE_VERSION)


def tombstone(transactional_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(_key(transactional_id), None)


def transaction_from(key: TransactionLogKey, value: TransactionLogValue, context: ReplayContext) -> Transaction:
    return Transaction(
        transactional_id=key.transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=State(value.transaction_status),
        partitions=frozenset(
            (topic.topic, partition)
            for topic in value.transaction_partitions or ()
            for partition in topic.partition_ids
        ),
        started_ms=value.transaction_start_timestamp_ms,
        updated_ms=value.transaction_last_update_timestamp_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        client_version=value.client_transaction_version,
        record_offset=context.offset,
        used_ms=context.now.steady_at(value.transaction_last_update_timestamp_ms),
    )


def _key(transactional_id: str) -> TransactionLogKey:
    return TransactionLogKey(transactional_id=transactional_id)
