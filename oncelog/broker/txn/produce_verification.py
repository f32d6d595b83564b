"""The partitions of a Produce in which its producer's transaction is not open yet, and the coordinator's word."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from typing import TYPE_CHECKING

from oncelog.broker.coordinator.txn.state import ProducerIdentity
from oncelog.broker.txn.producers import client_of
from oncelog.broker.txn.verification import as_leader_error, enlist, not_enlisted
from oncelog.protocol.errors import ErrorCode, KafkaError, ProtocolError
from oncelog.protocol.records.batch import read_header

if TYPE_CHECKING:
    from oncelog.broker.coordinator.txn.state import TopicPartition
    from oncelog.broker.log.verification import VerificationGuard
    from oncelog.broker.requests.context import RequestContext
    from oncelog.broker.txn.verification import Missing
    from oncelog.protocol.messages.produce import ProduceRequest
    from oncelog.protocol.records.batch import BatchHeader

    Guards = dict[TopicPartition, VerificationGuard]
    Refusals = dict[TopicPartition, KafkaError]

ADDED_BY_PRODUCE_SINCE = 12
_TRANSACTION_ABORTABLE_SINCE = 11


class Openings:
    __slots__ = ("_version", "guards", "refused", "waiting")

    def __init__(self, version: int) -> None:
        self._version = version
        self.guards: Guards = {}
        self.refused: Refusals = {}
        self.waiting: Awaitable[Missing] | None = None

    async def settle(self) -> None:
        """Wait for the coordinator's word; a refusal holds for all partitions that waited for it."""
        assert self.waiting is not None
        try:
            self.refuse(await self.waiting, not_enlisted())
        except KafkaError as error:
            self.refuse(self.guards, error)

    def refuse(self, partitions: Iterable[TopicPartition], error: KafkaError) -> None:
        refusal = as_leader_error(
            error,
            knows_abortable=self._version >= _TRANSACTION_ABORTABLE_SINCE,
            knows_concurrent=self._version >= ADDED_BY_PRODUCE_SINCE,
        )
        self.refused |= dict.fromkeys(partitions, refusal)


def open_transactions(request: ProduceRequest, context: RequestContext) -> Openings:
    """Ask the coordinator about those partitions that need it; most requests need nothing."""
    openings = Openings(context.version)
    adds = context.version >= ADDED_BY_PRODUCE_SINCE
    batches = _transactional_batches(request, context)
    producers = {ProducerIdentity(header.producer_id, header.producer_epoch) for _, header in batches}
    if len(producers) > 1:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "the batches of one request are of several producers")
    for partition, header in batches:
        try:
            log = context.services.partitions.leader(*partition).log
            if not adds and not log.config.transaction_verification:
                continue
            guard = log.begin_verification(
                *(header.producer_id, header.base_sequence, header.producer_epoch),
                supports_epoch_bump=adds,
                now_ms=context.services.clock.wall_ms(),
            )
        except KafkaError as error:
            openings.refused[partition] = error
            continue
        if guard is not None:
            openings.guards[partition] = guard
    if openings.guards:
        assert request.transactional_id is not None
        _ask(openings, context, request.transactional_id, producers.pop(), adds=adds)
    return openings


def _ask(
    openings: Openings, context: RequestContext, transactional_id: str, producer: ProducerIdentity, *, adds: bool
) -> None:
    try:
        missing = enlist(
            *(context.services, transactional_id, producer, frozenset(openings.guards)),
            adds=adds,
            client=client_of(context),
        )
    except KafkaError as error:
        openings.refuse(openings.guards, error)
        return
    if not isinstance(missing, frozenset):
        openings.waiting = missing
    elif missing:
        openings.refuse(missing, not_enlisted())


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
