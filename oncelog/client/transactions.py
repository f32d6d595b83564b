"""Transactions as an administrator sees them (KIP-664): who has one open, what it holds up, and how to end it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from oncelog.client.cluster import Backoff, Cluster, TopicPartition
from oncelog.client.connection import Connection
from oncelog.client.errors import known_code
from oncelog.client.offsets import LATEST, Isolation, list_offsets
from oncelog.named_tuple import NamedTuple
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ProducerState,
    TopicRequest,
)
from oncelog.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from oncelog.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from oncelog.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from oncelog.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from oncelog.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

TRANSACTION_COORDINATOR = 1
STATES = "Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort, Dead and PrepareEpochFence"
NO_DURATION = -1

_ONGOING = "Ongoing"
_ABORTED = "CompleteAbort"
_ENDED = ("Empty", "CompleteCommit", _ABORTED, "Dead")


class ListedTransaction(NamedTuple):
    transactional_id: str
    coordinator_id: int
    producer_id: int
    state: str


class DescribedTransaction(NamedTuple):
    transactional_id: str
    coordinator_id: int
    state: str
    producer_id: int
    epoch: int
    timeout_ms: int
    start_ms: int
    """-1 if it has not begun."""
    partitions: list[TopicPartition]
    client_address: str | None = None
    """Whose it is; empty if the broker has not heard of the client since its start, None if it does not tell."""
    client_id: str | None = None


class OpenTransaction(NamedTuple):
    """A transaction that a partition's leader waits for the end of."""

    producer_id: int
    epoch: int
    start_offset: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction: DescribedTransaction | None
    """What its coordinator says; None if no coordinator knows it, and so nobody will ever end it."""


class HeldPartition(NamedTuple):
    topic: str
    partition: int
    stable_offset: int
    high_watermark: int
    open_transactions: list[OpenTransaction]
    """By their first offset: the first one holds everything back."""

    @property
    def held_back(self) -> int:
        """Offsets that read_committed readers cannot have yet."""
        return self.high_watermark - self.stable_offset


class TransactionAdmin:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def list_transactions(
        self,
        *,
        states: Sequence[str] = (),
        producer_ids: Sequence[int] = (),
        duration_ms: int = NO_DURATION,
        pattern: str | None = None,
    ) -> list[ListedTransaction]:
        """Of all coordinators, by id. An unknown state is an error."""
        self.cluster.refresh([])
        request = ListTransactionsRequest(
            state_filters=list(states),
            producer_id_filters=list(producer_ids),
            duration_filter=duration_ms,
            transactional_id_pattern=pattern,
        )
        found = []
        for broker_id in sorted(self.cluster.brokers):
            answer = self.cluster.retry(partial(self._ask_list, broker_id, request))
            if answer.unknown_state_filters:
                unknown = answer.unknown_state_filters[0]
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"there is no state {unknown!r}; there are {STATES}")
            found += [
                ListedTransaction(state.transactional_id, broker_id, state.producer_id, state.transaction_state)
                for state in answer.transaction_states
            ]
        return sorted(found)

    def describe(self, transactional_id: str) -> DescribedTransaction:
        return self.cluster.retry(lambda: self._describe(transactional_id))

    def held_partitions(self, topic: str, partition: int | None = None) -> list[HeldPartition]:
        """Where readers stand, and which open transactions there are, in one partition or in all of a topic."""
        partitions = sorted(self.cluster.topic(topic).partitions) if partition is None else [partition]
        latest = {(topic, index): LATEST for index in partitions}
        stable = list_offsets(self.cluster, latest, isolation=Isolation.READ_COMMITTED)
        ends = list_offsets(self.cluster, latest)
        return [
            HeldPartition(
                topic,
                index,
                stable[topic, index].offset,
                ends[topic, index].offset,
                self.open_transactions(topic, index),
            )
            for index in partitions
        ]

    def open_transactions(self, topic: str, partition: int) -> list[OpenTransaction]:
        producers = self.cluster.retry(lambda: self._describe_producers(topic, partition))
        opened = sorted(
            (producer for producer in producers if producer.current_txn_start_offset >= 0),
            key=lambda producer: producer.current_txn_start_offset,
        )
        known = self._known_transactions([producer.producer_id for producer in opened])
        return [
            OpenTransaction(
                producer.producer_id,
                producer.producer_epoch,
                producer.current_txn_start_offset,
                producer.last_timestamp,
                producer.coordinator_epoch,
                _with_partition(known.get(producer.producer_id), (topic, partition)),
            )
            for producer in opened
        ]

    def abort(self, transactional_id: str) -> DescribedTransaction:
        """Abort the open transaction, which fences its producer; returns what it was.

        A producer without an open transaction is left alone: KafkaError INVALID_TXN_STATE.
        """
        found = before = self.describe(transactional_id)
        backoff = Backoff(self.cluster.timeout_ms)
        fenced = False
        while found.state not in _ENDED:
            if found.state == _ONGOING:
                fenced = True
                if self._fence(before) == ErrorCode.NONE:
                    return before
            if not backoff.wait():
                what = f"the transaction of {transactional_id!r} does not end; it is in state {found.state}"
                raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, what)
            found = self.describe(transactional_id)
        if fenced and found.state == _ABORTED:
            return before
        raise KafkaError(
            ErrorCode.INVALID_TXN_STATE,
            f"{transactional_id!r} has no open transaction (its state is {found.state}); nothing was aborted, and its "
            "producer is not fenced",
        )

    def abort_in_partition(self, topic: str, partition: int, start_offset: int) -> OpenTransaction:
        """End a transaction in one partition only, which is for those that no coordinator knows."""
        for opened in self.open_transactions(topic, partition):
            if opened.start_offset == start_offset:
                self.cluster.retry(partial(self._write_marker, topic, partition, opened))
                return opened
        raise KafkaError(
            ErrorCode.INVALID_TXN_STATE, f"no transaction of {topic}:{partition} is open since offset {start_offset}"
        )

    # -- requests --------------------------------------------------------------------------------------------

    def _ask_list(self, broker_id: int, request: ListTransactionsRequest) -> ListTransactionsResponse:
        answer = self.cluster.connection(broker_id).send(request, ListTransactionsResponse)
        if answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION:
            raise KafkaError(
                ErrorCode.INVALID_REGULAR_EXPRESSION,
                "the pattern is not valid in the syntax of RE2, or the broker lacks the package google-re2",
            )
        if answer.error_code:
            raise KafkaError(known_code(answer.error_code), f"broker {broker_id} does not list its transactions")
        return answer

    def _coordinator(self, transactional_id: str) -> tuple[int, Connection]:
        request = FindCoordinatorRequest(
            key=transactional_id, key_type=TRANSACTION_COORDINATOR, coordinator_keys=[transactional_id]
        )
        answer = self.cluster.ask_any(request, FindCoordinatorResponse)
        found = answer.coordinators[0] if answer.coordinators else answer
        if found.error_code:
            raise KafkaError(known_code(found.error_code), found.error_message or "there is no coordinator")
        if found.node_id not in self.cluster.brokers:
            self.cluster.refresh([])
        return found.node_id, self.cluster.connection(found.node_id)

    def _describe(self, transactional_id: str) -> DescribedTransaction:
        coordinator_id, connection = self._coordinator(transactional_id)
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        (state,) = connection.send(request, DescribeTransactionsResponse).transaction_states
        if state.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"there is no transactional id {transactional_id!r}")
        if state.error_code:
            raise KafkaError(known_code(state.error_code), f"transactional id {transactional_id!r}")
        return DescribedTransaction(
            transactional_id,
            coordinator_id,
            state.transaction_state,
            state.producer_id,
            state.producer_epoch,
            state.transaction_timeout_ms,
            state.transaction_start_time_ms,
            [(topic.topic, partition) for topic in state.topics for partition in topic.partitions],
            state.client_address,
            state.client_id,
        )

    def _describe_producers(self, topic: str, partition: int) -> list[ProducerState]:
        request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[partition])])
        connection = self.cluster.connection(self.cluster.leader_id(topic, partition))
        (described,) = connection.send(request, DescribeProducersResponse).topics[0].partitions
        if described.error_code:
            self.cluster.forget(topic)
            raise KafkaError(known_code(described.error_code), described.error_message or f"{topic}:{partition}")
        return described.active_producers

    def _known_transactions(self, producer_ids: Sequence[int]) -> dict[int, DescribedTransaction]:
        if not producer_ids:
            return {}
        return {
            listed.producer_id: self.describe(listed.transactional_id)
            for listed in self.list_transactions(producer_ids=producer_ids)
        }

    def _fence(self, described: DescribedTransaction) -> ErrorCode:
        """Asks for the next epoch, which aborts an open transaction. The answer is then CONCURRENT_TRANSACTIONS.

        The producer id and epoch are those that the transaction was seen with (KIP-360): a producer that has ended it
        meanwhile, and so has a newer epoch, is not fenced.
        """
        request = InitProducerIdRequest(
            transactional_id=described.transactional_id,
            transaction_timeout_ms=described.timeout_ms,
            producer_id=described.producer_id,
            producer_epoch=described.epoch,
        )

        def ask() -> ErrorCode:
            _, connection = self._coordinator(described.transactional_id)
            code = known_code(connection.send(request, InitProducerIdResponse).error_code)
            if code not in (ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS):
                raise KafkaError(code, f"transactional id {described.transactional_id!r}")
            return code

        return self.cluster.retry(ask)

    def _write_marker(self, topic: str, partition: int, opened: OpenTransaction) -> None:
        marker = WritableTxnMarker(
            producer_id=opened.producer_id,
            producer_epoch=opened.epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])],
            coordinator_epoch=max(0, opened.coordinator_epoch),
        )
        connection = self.cluster.connection(self.cluster.leader_id(topic, partition))
        answer = connection.send(WriteTxnMarkersRequest(markers=[marker]), WriteTxnMarkersResponse)
        code = answer.markers[0].topics[0].partitions[0].error_code
        if code:
            raise KafkaError(known_code(code), f"{topic}:{partition} takes no marker")


def _with_partition(transaction: DescribedTransaction | None, partition: TopicPartition) -> DescribedTransaction | None:
    """A transaction that does not include the partition will never end there."""
    return transaction if transaction is not None and partition in transaction.partitions else None
