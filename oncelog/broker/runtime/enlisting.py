"""Making sure that a producer may write to a partition as part of its transaction (KIP-890).

The first batch of a transaction in a partition is not appended before the coordinator's word: it verifies that
the client has added the partition (version 1) or adds it (version 2). Later batches find the transaction open in
the log and need no word. Without this, a late batch could open a transaction that nobody would ever end.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from oncelog.broker.coordinator.transaction_requests import ProducerIdentity
from oncelog.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from oncelog.broker.coordinator.transaction_state import TopicPartition
    from oncelog.broker.runtime.services import Services


def enlist(
    services: Services,
    transactional_id: str,
    producer: ProducerIdentity,
    partitions: frozenset[TopicPartition],
    *,
    adds: bool,
) -> Awaitable[None] | None:
    """Verify or add; something to await where the coordinator's answer takes time. KafkaError if refused."""
    shard = services.transactions.shard_for(transactional_id)
    if not shard.loaded:
        return _enlist_loaded(services, transactional_id, producer, partitions, adds)
    if not adds:
        shard.coordinator.verify_partitions(transactional_id, producer, partitions)
        return None
    reply = shard.run(
        lambda coordinator, now_ms: coordinator.add_partitions(
            transactional_id, producer, partitions, now_ms, client_version=2
        )
    )
    return reply if inspect.isawaitable(reply) else None


async def _enlist_loaded(
    services: Services,
    transactional_id: str,
    producer: ProducerIdentity,
    partitions: frozenset[TopicPartition],
    adds: bool,
) -> None:
    await services.transactions.shard_for(transactional_id).loading()
    waiting = enlist(services, transactional_id, producer, partitions, adds=adds)
    if waiting is not None:
        await waiting


def as_produce_error(error: KafkaError, version: int) -> KafkaError:
    """What a producer of that version understands of the coordinator's refusal.

    A partition's leader never says PRODUCER_FENCED; it is up to the coordinator to say it. What will pass by
    itself must be an error that producers retry, which the coordinator's own codes are not to a Produce.
    """
    code = error.code
    if code == ErrorCode.PRODUCER_FENCED:
        return KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, error.message)
    if code == ErrorCode.TRANSACTION_ABORTABLE and version < 11:
        return KafkaError(ErrorCode.INVALID_TXN_STATE, error.message)
    passing = (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    )
    if code in passing or (code == ErrorCode.CONCURRENT_TRANSACTIONS and version < 12):
        return KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, f"the transaction cannot be verified now: {error.message}")
    return error
