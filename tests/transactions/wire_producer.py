"""A transactional producer of either generation that is nothing but its requests: it hides no answer and retries
nothing, so a test knows what was said."""

from __future__ import annotations

import itertools
from typing import Any

from oncelog.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from oncelog.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from oncelog.protocol.messages.describe_transactions import DescribeTransactionsRequest
from oncelog.protocol.messages.end_txn import EndTxnRequest
from oncelog.protocol.messages.find_coordinator import FindCoordinatorRequest
from oncelog.protocol.messages.init_producer_id import InitProducerIdRequest
from oncelog.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from oncelog.protocol.records.record import Record
from oncelog.testing import Broker
from tests.bad_input.raw import RawClient
from tests.bad_input.requests import batch, produce, produce_codes

INIT, ADD = 5, 3
OLD, NEW = 1, 2
END = {OLD: 4, NEW: 5}
"""The version of EndTxn that a client of each generation uses."""
PRODUCE = {OLD: 11, NEW: 12}
COMMIT_OFFSETS = {OLD: 3, NEW: 5}
TRANSACTIONAL_ID_TYPE = 1

_numbers = itertools.count()


def port_of(broker: Broker) -> int:
    return int(broker.bootstrap_servers.rpartition(":")[2])


class TxnProducer:
    """Sends what it is told to; its id and epoch are those that the coordinator gave, until a test changes them."""

    def __init__(
        self, client: RawClient, generation: int = OLD, name: str | None = None, *, timeout_ms: int = 60_000
    ) -> None:
        self.client = client
        self.generation = generation
        self.name = name or f"txn-{next(_numbers)}"
        find = FindCoordinatorRequest(key_type=TRANSACTIONAL_ID_TYPE, coordinator_keys=[self.name])
        (found,) = client.call(find, 6).coordinators
        assert found.error_code == 0
        started = client.call(
            InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=timeout_ms), INIT
        )
        assert started.error_code == 0
        self.producer_id, self.epoch = started.producer_id, started.producer_epoch
        self.sequences: dict[str, int] = {}

    def batch(self, topic: str, *records: Record, **options: Any) -> bytearray:
        """With the next sequence, of one record unless they are given."""
        sequence = self.sequences.get(topic, 0)
        identity = {"producer_id": self.producer_id, "producer_epoch": self.epoch, "base_sequence": sequence}
        return batch(*records, **{"transactional": True, **identity, **options})

    def add_request(self, *topics: str, partitions: tuple[int, ...] = (0,)) -> AddPartitionsToTxnRequest:
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(partitions)) for topic in topics],
        )

    def add(self, *topics: str, partitions: tuple[int, ...] = (0,), client: RawClient | None = None) -> dict[Any, int]:
        answer = (client or self.client).call(self.add_request(*topics, partitions=partitions), ADD)
        return {
            (topic.name, part.partition_index): part.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for part in topic.results_by_partition
        }

    def send(self, topic: str, *records: Record) -> int:
        """One record, or those given, as part of the transaction, to the only partition; the code."""
        if self.generation == OLD:
            assert self.add(topic) == {(topic, 0): 0}
        code = self.produce(topic, self.batch(topic, *records))
        if not code:
            self.sequences[topic] = self.sequences.get(topic, 0) + max(1, len(records))
        return code

    def produce(self, topic: str, records: Any, version: int | None = None) -> int:
        request = produce(topic, records, transactional_id=self.name)
        (code,) = produce_codes(self.client.call(request, version or PRODUCE[self.generation]))
        return code

    def send_offset(self, group_id: str, topic: str, offset: int) -> int:
        """The offset of the only partition, as nobody's member; the code."""
        identity: dict[str, Any] = {
            "transactional_id": self.name,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        }
        if self.generation == OLD:
            added = self.client.call(AddOffsetsToTxnRequest(**identity, group_id=group_id), ADD)
            assert added.error_code == 0, added
        entry = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        request = TxnOffsetCommitRequest(
            **identity,
            group_id=group_id,
            generation_id=-1,
            member_id="",
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[entry])],
        )
        answer = self.client.call(request, COMMIT_OFFSETS[self.generation])
        code: int = answer.topics[0].partitions[0].error_code
        return code

    def end_request(self, commit: bool = True, **changes: Any) -> EndTxnRequest:
        fields = {"transactional_id": self.name, "producer_id": self.producer_id, "producer_epoch": self.epoch}
        return EndTxnRequest(**{**fields, "committed": commit, **changes})

    def end(self, commit: bool = True, *, version: int | None = None, **changes: Any) -> int:
        answer = self.client.call(
            self.end_request(commit, **changes), END[self.generation] if version is None else version
        )
        if not answer.error_code and self.generation == NEW:
            assert answer.producer_epoch == self.epoch + 1
            self.epoch = answer.producer_epoch
            self.sequences.clear()
        code: int = answer.error_code
        return code

    def state(self) -> tuple[str, set[tuple[str, int]]]:
        (described,) = self.client.call(
            DescribeTransactionsRequest(transactional_ids=[self.name]), 0
        ).transaction_states
        parts = {(topic.topic, index) for topic in described.topics for index in topic.partitions}
        return described.transaction_state, parts
