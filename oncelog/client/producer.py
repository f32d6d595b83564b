"""A producer that gathers records into one batch per partition and sends all batches together.

It blocks: `produce` only buffers until a batch is full, `flush` returns when everything is acknowledged or
raises. An idempotent producer numbers its batches, so that a batch whose answer was lost is not written
twice. A process that writes on behalf of another, as a Spark executor does for its driver, is given the
producer id and epoch to write with.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from oncelog.client.cluster import RETRIABLE, Backoff, Cluster, TopicPartition
from oncelog.client.connection import Pending
from oncelog.client.errors import ClientError, known_code
from oncelog.client.partitioner import StickyPartitioner, partition_for_key
from oncelog.named_tuple import NamedTuple
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from oncelog.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from oncelog.protocol.records.batch import SEQUENCE_MASK, build_batch
from oncelog.protocol.records.compression import Compression
from oncelog.protocol.records.record import Record

ACKS_ALL = -1
BATCH_SIZE_BYTES = 512 * 1024
BUFFER_SIZE_BYTES = 16 * 1024 * 1024
"""Kept well below the 100 MB that brokers accept as one request."""

_RECORD_OVERHEAD_BYTES = 24

Headers = Sequence[tuple[str, bytes | None]]


class ProducerIdentity(NamedTuple):
    """Who writes, as the deduplication of the broker sees it (KIP-98)."""

    producer_id: int
    epoch: int


class Delivery(NamedTuple):
    """Where the records of one partition went. The first offset is -1 if the broker does not tell it."""

    first_offset: int
    next_offset: int
    record_count: int


class _Batch:
    """Records of one partition on their way; the sequence is fixed when the batch is first sent."""

    __slots__ = ("encoded", "records", "sequence", "size_bytes")

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.size_bytes = 0
        self.sequence = -1
        self.encoded: bytearray | None = None

    def add(self, record: Record, size_bytes: int) -> None:
        self.records.append(record)
        self.size_bytes += size_bytes


_Group = dict[TopicPartition, _Batch]
_Queue = list[tuple[TopicPartition, _Batch]]


class Producer:
    """`with Producer(cluster) as producer: producer.produce(...)`; leaving the block flushes.

    `identity` makes it idempotent under a given producer id and epoch; `next_sequences` then says where each
    partition goes on, from 0 where it says nothing, and can be read back after a flush. `transactional_id`
    marks the batches as part of that id's transaction, which its owner begins and ends.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        acks: int = ACKS_ALL,
        compression: Compression = Compression.NONE,
        idempotent: bool = False,
        identity: ProducerIdentity | None = None,
        next_sequences: Mapping[TopicPartition, int] | None = None,
        transactional_id: str | None = None,
        auto_create: bool = True,
        batch_size_bytes: int = BATCH_SIZE_BYTES,
    ) -> None:
        if (idempotent or identity) and acks != ACKS_ALL:
            raise ValueError("an idempotent producer needs acks=all")
        if transactional_id is not None and identity is None:
            raise ValueError("a transactional producer needs the producer id and epoch of its transaction")
        self.cluster = cluster
        self.delivered: dict[TopicPartition, Delivery] = {}
        self.delivered_count = 0
        self.identity = identity
        self.next_sequences: dict[TopicPartition, int] = dict(next_sequences or {})
        self._acks = acks
        self._compression = compression
        self._transactional_id = transactional_id
        self._auto_create = auto_create
        self._batch_size_bytes = batch_size_bytes
        self._batches: dict[TopicPartition, _Batch] = {}
        self._buffered_bytes = 0
        self._sticky: dict[str, StickyPartitioner] = {}
        if idempotent and identity is None:
            self.identity = new_identity(cluster)

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, failed: type[BaseException] | None, *_: object) -> None:
        if failed is None:
            self.flush()

    def produce(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """Buffers a record; sends what is buffered when its batch is full."""
        if partition is None:
            partition = self._choose_partition(topic, key)
        if timestamp_ms is None:
            timestamp_ms = int(time.time() * 1000)
        size_bytes = _RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
        for name, header_value in headers:
            size_bytes += len(name) + len(header_value or b"") + 4
        batch = self._batches.get((topic, partition))
        if batch is not None and batch.size_bytes + size_bytes > self._batch_size_bytes:
            self.flush()
            batch = None
        if batch is None:
            batch = self._batches[topic, partition] = _Batch()
        batch.add(Record(0, timestamp_ms, key, value, headers), size_bytes)
        self._buffered_bytes += size_bytes
        if self._buffered_bytes >= BUFFER_SIZE_BYTES:
            self.flush()

    def _choose_partition(self, topic: str, key: bytes | None) -> int:
        count = len(self.cluster.topic(topic, auto_create=self._auto_create).partitions)
        if key is not None:
            return partition_for_key(key, count)
        return self._sticky.setdefault(topic, StickyPartitioner()).partition(count)

    # -- sending ---------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Returns when all buffered records are acknowledged (with acks=0: sent); raises if one is refused.

        Records that were refused are dropped; those of other partitions may have been written.
        """
        batches, self._batches = self._batches, {}
        self._buffered_bytes = 0
        left: _Queue = list(batches.items())
        backoff = Backoff(self.cluster.timeout_ms)
        while left:
            left, failure = self._send_round(left)
            if failure is not None and not backoff.wait():
                raise failure
        for topic in {topic for topic, _ in batches} & self._sticky.keys():
            self._sticky[topic].move_on(len(self.cluster.topic(topic).partitions))

    def _send_round(self, batches: _Queue) -> tuple[_Queue, Exception | None]:
        """Sends the first batch of each partition; returns what is still to be sent, and why it failed."""
        groups, left = self._group_by_leader(batches)
        failure: Exception | None = None
        under_way: list[tuple[_Group, Pending[ProduceResponse] | None]] = []
        for leader, group in groups.items():
            try:
                under_way.append((group, self._begin(leader, group)))
            except ClientError as error:
                failure = self._note_lost(group, error)
                left = [*group.items(), *left]
        for group, pending in under_way:
            try:
                again, refusal = self._finish(group, pending)
            except ClientError as error:
                again, refusal = list(group.items()), self._note_lost(group, error)
            left = [*again, *left]
            failure = refusal or failure
        return left, failure

    def _group_by_leader(self, batches: _Queue) -> tuple[dict[int, _Group], _Queue]:
        """A later batch of the same partition has to wait, since a broker takes one per request."""
        groups: dict[int, _Group] = {}
        left: _Queue = []
        for (topic, partition), batch in batches:
            self.cluster.topic(topic, auto_create=self._auto_create)
            group = groups.setdefault(self.cluster.leader_id(topic, partition), {})
            if (topic, partition) in group:
                left.append(((topic, partition), batch))
            else:
                group[topic, partition] = batch
        return groups, left

    def _begin(self, leader_id: int, group: _Group) -> Pending[ProduceResponse] | None:
        connection = self.cluster.connection(leader_id)
        request = self._request(group)
        if self._acks:
            return connection.begin(request, ProduceResponse)
        connection.send_without_answer(request)
        return None

    def _finish(self, group: _Group, pending: Pending[ProduceResponse] | None) -> tuple[_Queue, Exception | None]:
        if pending is not None:
            return self._take_answer(group, pending.wait())
        for where, batch in group.items():
            self._note_delivered(where, batch, -1)
        return [], None

    def _note_lost(self, group: _Group, error: ClientError) -> Exception:
        if not self.cluster.may_pass(error):
            raise error
        for topic, _ in group:
            self.cluster.forget(topic)
        return error

    def _request(self, group: _Group) -> ProduceRequest:
        topics: dict[str, TopicProduceData] = {}
        for (topic, partition), batch in group.items():
            data = topics.get(topic)
            if data is None:
                metadata = self.cluster.topic(topic)
                data = topics[topic] = TopicProduceData(name=topic, topic_id=metadata.topic_id)
            data.partition_data.append(
                PartitionProduceData(index=partition, records=self._encode((topic, partition), batch))
            )
        return ProduceRequest(
            transactional_id=self._transactional_id,
            acks=self._acks,
            timeout_ms=self.cluster.timeout_ms,
            topic_data=list(topics.values()),
        )

    def _encode(self, where: TopicPartition, batch: _Batch) -> bytearray:
        """A batch that is sent again must be the same to the last byte, or it would not be recognized."""
        if batch.encoded is not None:
            return batch.encoded
        if self.identity is None:
            batch.encoded = build_batch(batch.records, compression=self._compression)
            return batch.encoded
        if batch.sequence < 0:
            batch.sequence = self.next_sequences.get(where, 0)
            self.next_sequences[where] = (batch.sequence + len(batch.records)) & SEQUENCE_MASK
        batch.encoded = build_batch(
            batch.records,
            compression=self._compression,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            base_sequence=batch.sequence,
            transactional=self._transactional_id is not None,
        )
        return batch.encoded

    # -- answers ---------------------------------------------------------------------------------------------

    def _take_answer(self, group: _Group, answer: ProduceResponse) -> tuple[_Queue, Exception | None]:
        again: _Queue = []
        failure: Exception | None = None
        for topic_answer in answer.responses:
            topic = self.cluster.topic_name(topic_answer.topic_id, topic_answer.name)
            for partition_answer in topic_answer.partition_responses:
                where = (topic, partition_answer.index)
                batch = group[where]
                code = known_code(partition_answer.error_code)
                if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                    self._note_delivered(where, batch, partition_answer.base_offset)
                elif code == ErrorCode.MESSAGE_TOO_LARGE and len(batch.records) > 1:
                    again += [(where, half) for half in _split(batch)]
                elif code in RETRIABLE:
                    failure = _refusal(where, partition_answer)
                    again.append((where, batch))
                else:
                    raise _refusal(where, partition_answer)
        if failure is not None:
            for topic, _ in group:
                self.cluster.forget(topic)
        return again, failure

    def _note_delivered(self, where: TopicPartition, batch: _Batch, base_offset: int) -> None:
        count = len(batch.records)
        before = self.delivered.get(where)
        next_offset = base_offset + count if base_offset >= 0 else -1
        if before is None:
            self.delivered[where] = Delivery(base_offset, next_offset, count)
        else:
            self.delivered[where] = Delivery(before.first_offset, next_offset, before.record_count + count)
        self.delivered_count += count


def new_identity(cluster: Cluster) -> ProducerIdentity:
    """A producer id that nobody else has."""

    def ask() -> ProducerIdentity:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        answer = cluster.ask_any(request, InitProducerIdResponse)
        if answer.error_code:
            raise KafkaError(known_code(answer.error_code), "no producer id is to be had")
        return ProducerIdentity(answer.producer_id, answer.producer_epoch)

    return cluster.retry(ask)


def _split(batch: _Batch) -> list[_Batch]:
    """Two halves of a batch that is larger than the topic allows; their sequences are those of the whole."""
    middle = len(batch.records) // 2
    halves = []
    for start, records in ((0, batch.records[:middle]), (middle, batch.records[middle:])):
        half = _Batch()
        half.records = records
        if batch.sequence >= 0:
            half.sequence = (batch.sequence + start) & SEQUENCE_MASK
        halves.append(half)
    return halves


def _refusal(where: TopicPartition, answer: PartitionProduceResponse) -> KafkaError:
    code = known_code(answer.error_code)
    reasons = [each.batch_index_error_message for each in answer.record_errors]
    reason = answer.error_message or next(filter(None, reasons), None)
    place = f"{where[0]}-{where[1]}"
    return KafkaError(code, f"{place}: {reason}" if reason else place)
