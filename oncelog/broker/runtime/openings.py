"""The partitions of a Produce in which its producer's transaction is not open yet, and the coordinator's word."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from oncelog.broker.coordinator.transaction_requests import ProducerIdentity
from oncelog.broker.runtime.enlisting import as_produce_error, enlist
from oncelog.protocol.errors import ErrorCode, KafkaError, ProtocolError
from oncelog.protocol.records.batch import read_header

if TYPE_CHECKING:
    from oncelog.broker.coordinator.transaction_state import TopicPartition
    from oncelog.broker.log.verification import VerificationGuard
    from oncelog.broker.runtime.context import RequestContext
    from oncelog.protocol.messages.produce import ProduceRequest
    from oncelog.protocol.records.batch import BatchHeader

    Guards = dict[TopicPartition, VerificationGuard]
    Refusals = dict[TopicPartition, KafkaError]

ADDED_BY_PRODUCE_SINCE = 12


class Openings:
    __slots__ = ("guards", "refused", "waiting")

    def __init__(self) -> None:
        self.guards: Guards = {}
        self.refused: Refusals = {}
        self.waiting: Awaitable[None] | None = None

    async def settle(self, version: int) -> None:
        """Wait for the coordinator's word; a refusal holds for all partitions that waited for it."""
        assert self.waiting is not None
        try:
            await self.waiting
        except KafkaError as error:
            self.refuse(error, version)

    def refuse(self, error: KafkaError, version: int) -> None:
        refusal = as_produce_error(error, version)
        self.refused |= dict.fromkeys(self.guards, refusal)


def open_transactions(request: ProduceRequest, context: RequestContext) -> Openings:
    """Ask the coordinator about those partitions that need it; most requests need nothing."""
    openings = Openings()
    adds = context.version >= ADDED_BY_PRODUCE_SINCE
    producer: ProducerIdentity | None = None
    for partition, header in _transactional_batches(request, context):
        batch_producer = ProducerIdentity(header.producer_id, header.producer_epoch)
        producer = producer or batch_producer
        try:
            if batch_producer != producer:
                raise KafkaError(ErrorCode.INVALID_RECORD, "the batches of one request are of several producers")
            log = context.services.partitions.leader(*partition).log
            guard = log.begin_verification(
                *(header.producer_id, header.base_sequence, header.producer_epoch),
                supports_epoch_bump=adds,
                now_ms=context.services.clock.now_ms(),
            )
        except KafkaError as error:
            openings.refused[partition] = error
            continue
        if guard is not None:
            openings.guards[partition] = guard
    if openings.guards:
        assert request.transactional_id is not None
        assert producer is not None
        partitions = frozenset(openings.guards)
        try:
            openings.waiting = enlist(context.services, request.transactional_id, producer, partitions, adds=adds)
        except KafkaError as error:
            openings.refuse(error, context.version)
    return openings


def _transactional_batches(
    request: ProduceRequest, context: RequestContext
) -> list[tuple[TopicPartition, BatchHeader]]:
    """What cannot be read or found here is left to the checks that come with appending."""
    found = []
    for topic in request.topic_data:
        for data in topic.partition_data:
            try:
                name = topic.name if context.version < 13 else context.services.partitions.name_of(topic.topic_id)
                header = read_header(data.records or b"")
            except (KafkaError, ProtocolError):
                continue
            if header.is_transactional and header.producer_id >= 0:
                found.append(((name, data.index), header))
    return found
