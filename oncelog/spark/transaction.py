"""The driver's side of a transaction: the requests to its coordinator, and what a lost answer means.

The epoch is the one thing that all safety rests on. It is bumped by InitProducerId, which at the same time aborts
what the epoch before has left open, whenever something may be under way that must not land any more: when a driver
starts, when a batch was not committed, and when the answer to a request of the transaction was lost. What was sent
again may arrive once more, and in this generation of the protocol a late EndTxn could end the next transaction
(KAFKA-17754), and a late TxnOffsetCommit would put the marker of this batch into it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import TypeVar

from oncelog.client.cluster import RETRIABLE, Backoff, TopicPartition
from oncelog.client.connection import Connection
from oncelog.client.errors import ClientError, known_code
from oncelog.client.producer import ProducerIdentity
from oncelog.named_tuple import NamedTuple
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from oncelog.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from oncelog.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from oncelog.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from oncelog.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from oncelog.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from oncelog.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from oncelog.protocol.schema import Message
from oncelog.spark.cluster import SinkCluster
from oncelog.spark.errors import OutcomeUnknown, Repeat, SinkError, TransactionalIdInUse
from oncelog.spark.options import SinkOptions

GROUP = 0
TRANSACTION = 1

_PASSING = RETRIABLE | {ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.BROKER_NOT_AVAILABLE}
_MOVED = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.BROKER_NOT_AVAILABLE)
_FENCED = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
_LOST = (*_FENCED, ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
"""The transaction is no longer ours to end: it ran into its timeout, or somebody has taken over."""

_NOT_A_MEMBER = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID)

M = TypeVar("M", bound=Message)


class CommittedOffset(NamedTuple):
    offset: int
    metadata: str


class Transactions:
    """The transactions of one transactional id, one after the other."""

    def __init__(self, cluster: SinkCluster, options: SinkOptions) -> None:
        self.identity: ProducerIdentity | None = None
        self.next_sequences: dict[TopicPartition, int] = {}
        self._cluster = cluster
        self._options = options
        self._coordinators: dict[int, int] = {}
        self._lost: list[ClientError] = []
        """Why requests under this epoch had to be sent again."""
        self._open = False
        """Whether a transaction has begun under this epoch and can only have ended by being aborted."""
        self._tries = 0
        """How often the last request was sent."""

    @property
    def retries(self) -> int:
        """How many requests under this epoch had to be sent again."""
        return len(self._lost)

    # -- the life of a transaction ---------------------------------------------------------------------------

    def fence(self) -> ProducerIdentity:
        """A new epoch: what the last one has under way is aborted, and can no longer be written to.

        Whoever had an epoch before names it (KIP-360), and is refused if a stranger has taken a newer one. Below
        transaction.version 2, a coordinator that aborts an open transaction, because it is asked for a new epoch or
        because of the timeout, keeps an epoch for that and forgets the one before. Then the next is named: a stranger
        who finds a transaction open gets a still later one.
        """
        before = self.identity or ProducerIdentity(-1, -1)
        try:
            self.identity = self._new_epoch(before)
        except TransactionalIdInUse:
            if not self._open:
                raise
            self.identity = self._new_epoch(before._replace(epoch=before.epoch + 1))
        self.next_sequences = {}
        self._lost.clear()
        self._open = False
        return self.identity

    def _new_epoch(self, before: ProducerIdentity) -> ProducerIdentity:
        request = InitProducerIdRequest(
            transactional_id=self._options.transactional_id,
            transaction_timeout_ms=self._options.transaction_timeout_ms,
            producer_id=before.producer_id,
            producer_epoch=before.epoch,
        )
        try:
            answer = self._ask(TRANSACTION, request, InitProducerIdResponse, lambda found: [found.error_code])
        except KafkaError as error:
            if error.code in _FENCED:
                raise self._taken_over() from None
            if error.code == ErrorCode.INVALID_TRANSACTION_TIMEOUT:
                raise SinkError(
                    f"kafka.transaction.timeout.ms={self._options.transaction_timeout_ms} is more than the"
                    " brokers allow (their transaction.max.timeout.ms)"
                ) from None
            raise
        return ProducerIdentity(answer.producer_id, answer.producer_epoch)

    def add_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        by_topic: dict[str, list[int]] = {}
        for topic, partition in partitions:
            by_topic.setdefault(topic, []).append(partition)
        identity = self._identity()
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._options.transactional_id,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=t, partitions=p) for t, p in by_topic.items()],
        )
        self._in_transaction(request, AddPartitionsToTxnResponse, _added_codes)
        self._open = True

    def commit_offsets(
        self, offsets: Mapping[TopicPartition, CommittedOffset], optional: Collection[TopicPartition] = ()
    ) -> None:
        """Makes the offsets part of the transaction.

        Kafka asks for the right to read a topic before it takes an offset there. The `optional` ones may be without,
        as long as any of all the offsets is taken.
        """
        identity = self._identity()
        request = AddOffsetsToTxnRequest(
            transactional_id=self._options.transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            group_id=self._options.group_id,
        )
        self._in_transaction(request, AddOffsetsToTxnResponse, lambda found: [found.error_code])
        self._open = True
        by_topic: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, partition), (offset, metadata) in offsets.items():
            by_topic.setdefault(topic, []).append(
                TxnOffsetCommitRequestPartition(
                    partition_index=partition, committed_offset=offset, committed_metadata=metadata
                )
            )
        commit = TxnOffsetCommitRequest(
            transactional_id=self._options.transactional_id,
            group_id=self._options.group_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=t, partitions=p) for t, p in by_topic.items()],
        )
        codes = partial(_offset_codes, optional)
        self._in_transaction(commit, TxnOffsetCommitResponse, codes, where=GROUP)

    def commit(self) -> bool:
        """Commits. False says that an answer of the transaction was lost, so that a new epoch is due before going on.

        OutcomeUnknown says that no answer came at all; `fence` and `committed` then tell what became of it.
        """
        identity = self._identity()
        request = EndTxnRequest(
            transactional_id=self._options.transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            committed=True,
        )
        try:
            self._in_transaction(request, EndTxnResponse, lambda found: [found.error_code])
        except ClientError as error:
            self._open = False
            raise OutcomeUnknown(f"the answer to the commit was lost: {error}") from None
        except (Repeat, SinkError):
            if self._tries > 1:
                # The first may have committed, and then whoever has the next epoch is a stranger.
                self._open = False
            raise
        self._open = False
        return not self._lost

    def committed(self) -> dict[TopicPartition, CommittedOffset]:
        """What the group has committed; waits for a transaction that is just being ended (KIP-447)."""
        request = OffsetFetchRequest(group_id=self._options.group_id, topics=None, require_stable=True)
        answer = self._ask(GROUP, request, OffsetFetchResponse, _fetched_codes)
        return {
            (topic.name, partition.partition_index): CommittedOffset(
                partition.committed_offset, partition.metadata or ""
            )
            for topic in answer.topics
            for partition in topic.partitions
            if partition.committed_offset >= 0
        }

    # -- requests --------------------------------------------------------------------------------------------

    def _identity(self) -> ProducerIdentity:
        assert self.identity is not None, "a transaction needs an epoch"
        return self.identity

    def _in_transaction(
        self,
        request: Message,
        response: type[M],
        codes: Callable[[M], Iterable[int]],
        *,
        where: int = TRANSACTION,
    ) -> M:
        try:
            return self._ask(where, request, response, codes, lost=self._lost)
        except KafkaError as error:
            if error.code in _LOST:
                raise Repeat(f"the transaction was ended from outside: {error}") from None
            if error.code in _NOT_A_MEMBER:
                raise SinkError(
                    f"the group {self._options.group_id!r} has members, so the sink cannot commit its progress to it:"
                    " no consumer may use the sink's transactional id as its group"
                ) from None
            raise SinkError(f"the transaction coordinator refuses: {error}") from None

    def _ask(
        self,
        kind: int,
        request: Message,
        response: type[M],
        codes: Callable[[M], Iterable[int]],
        *,
        lost: list[ClientError] | None = None,
    ) -> M:
        """Asks the coordinator until it answers without an error that may pass."""
        backoff = Backoff(self._options.delivery_timeout_ms)
        self._tries = 0
        while True:
            failure: Exception
            self._tries += 1
            try:
                answer = self._coordinator(kind).send(request, response)
                bad = next((code for code in codes(answer) if code), 0)
                if not bad:
                    return answer
                raise KafkaError(known_code(bad), f"{type(request).__name__.removesuffix('Request')}")
            except ClientError as error:
                if not self._cluster.may_pass(error):
                    raise
                if lost is not None:
                    lost.append(error)
                self._coordinators.pop(kind, None)
                failure = error
            except KafkaError as error:
                if error.code not in _PASSING:
                    raise
                if error.code in _MOVED:
                    self._coordinators.pop(kind, None)
                failure = error
            if not backoff.wait():
                raise failure

    def _coordinator(self, kind: int) -> Connection:
        node_id = self._coordinators.get(kind)
        if node_id is None:
            key = self._options.group_id if kind == GROUP else self._options.transactional_id
            found = self._cluster.ask_any(FindCoordinatorRequest(key=key, key_type=kind), FindCoordinatorResponse)
            if found.error_code:
                raise KafkaError(known_code(found.error_code), found.error_message or f"the coordinator of {key!r}")
            self._cluster.refresh([])
            node_id = self._coordinators[kind] = found.node_id
        return self._cluster.connection(node_id)

    def _taken_over(self) -> TransactionalIdInUse:
        return TransactionalIdInUse(
            f"the transactional id {self._options.transactional_id!r} is in use by another query, which has taken it"
            " over; this query stops, and nothing of its open batch becomes visible"
        )


def _added_codes(answer: AddPartitionsToTxnResponse) -> list[int]:
    """OPERATION_NOT_ATTEMPTED hides the partition that is to blame."""
    found = [
        partition.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for partition in topic.results_by_partition
    ]
    return sorted(found, key=lambda code: code == ErrorCode.OPERATION_NOT_ATTEMPTED)


def _offset_codes(optional: Collection[TopicPartition], answer: TxnOffsetCommitResponse) -> list[int]:
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    codes = [
        partition.error_code
        for topic in answer.topics
        for partition in topic.partitions
        if partition.error_code != refused or (topic.name, partition.partition_index) not in optional
    ]
    return codes or [refused]


def _fetched_codes(answer: OffsetFetchResponse) -> list[int]:
    return [answer.error_code, *(partition.error_code for topic in answer.topics for partition in topic.partitions)]
