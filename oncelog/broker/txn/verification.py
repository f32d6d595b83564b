"""Making sure that a producer may write to partitions as part of its transaction (KIP-890).

The first batch of a transaction in a partition is not appended before the coordinator's word: it verifies that
the client has added the partition (version 1) or adds it (version 2). Later batches find the transaction open in
the log and need no word. Without this, a late batch could open a transaction that nobody would ever end.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from oncelog.broker.coordinator.contract import Result
from oncelog.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from oncelog.broker.base.now import Now
    from oncelog.broker.coordinator.txn.coordinator import TransactionCoordinator
    from oncelog.broker.coordinator.txn.memory import Client
    from oncelog.broker.coordinator.txn.state import ProducerIdentity, TopicPartition
    from oncelog.broker.requests.services import Services

    Missing = frozenset[TopicPartition]

_NONE_MISSING: Missing = frozenset()

_PASSING = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


def enlist(
    services: Services,
    transactional_id: str,
    producer: ProducerIdentity,
    partitions: frozenset[TopicPartition],
    *,
    adds: bool,
    client: Client | None = None,
) -> Missing | Awaitable[Missing]:
    """Verify or add. The partitions that are not in the transaction all the same, or something to await where
    the coordinator's answer takes time. KafkaError if it refuses them all."""
    if not adds:
        shard = services.transactions.shard_for(transactional_id)
        if shard.loaded:
            transaction = shard.coordinator.verify_producer(transactional_id, producer)
            if shard.is_safe(transaction.record_offset):
                return partitions - transaction.partitions

    def operation(coordinator: TransactionCoordinator, now: Now) -> Result[Missing]:
        if adds:
            added = coordinator.add_partitions(
                transactional_id, producer, partitions, now, client_version=2, client=client
            )
            return added.with_reply(_NONE_MISSING)
        return Result(partitions - coordinator.verify_producer(transactional_id, producer).partitions)

    return services.transactions.run(transactional_id, operation)


def not_enlisted() -> KafkaError:
    return KafkaError(ErrorCode.TRANSACTION_ABORTABLE, "Partition was not added to the transaction")


def as_leader_error(error: KafkaError, *, knows_abortable: bool, knows_concurrent: bool) -> KafkaError:
    """What a producer understands of the coordinator's refusal when it comes from the leader of a partition.

    The leader never says PRODUCER_FENCED; it is up to the coordinator to say it. What will pass by itself must be
    an error that producers retry, which the coordinator's own codes are not to a Produce.
    """
    code = error.code
    if code == ErrorCode.PRODUCER_FENCED:
        return KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, error.message)
    if code == ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        return KafkaError(ErrorCode.INVALID_TXN_STATE, error.message)
    if code in _PASSING or (code == ErrorCode.CONCURRENT_TRANSACTIONS and not knows_concurrent):
        return KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, f"the transaction cannot be verified now: {error.message}")
    return error
