"""From blocks to the log: a task gives each block the driver's producer and the next sequence, and sends it.

Several requests are under way at once, as far as brokers recognize a repeated one: they remember the last five
batches of a producer in a partition. After a failure all that is not acknowledged is sent again, in its order and
unchanged to the last byte.

A task never runs its work twice. If Spark starts it again, in the same or in another attempt of its stage, the
attempt before may have written something, so it only reports that, and the driver runs the whole batch anew under a
new epoch.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from oncelog.client.cluster import Backoff, TopicPartition
from oncelog.client.connection import Pending
from oncelog.client.errors import ClientError, known_code
from oncelog.client.producer import ProducerIdentity
from oncelog.named_tuple import NamedTuple
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from oncelog.protocol.records.batch import CRC_POSITION, SEQUENCE_MASK, compute_crc
from oncelog.spark.cluster import SinkCluster
from oncelog.spark.internals import is_first_attempt
from oncelog.spark.options import SinkOptions

ACKS_ALL = -1
UNDER_WAY_MAX = 4
REQUEST_SIZE_BYTES_MAX = 2 * 1024 * 1024

WRITTEN = "written"
REPEATED = "repeated"
REFUSED = "refused"
FAILED = "failed"
"""`refused` may go away under a new epoch, `failed` would fail again."""

NOT_REPORTED = "is not among the partitions that the encoding tasks have reported rows for"

RESULT_SCHEMA = (
    "status string, detail string, topic string, partition int, records long, size_bytes long, end_offset long"
)
ATTEMPT_COLUMN = "attempt"
_ARROW_SCHEMA = pa.schema(
    [
        ("status", pa.string()),
        ("detail", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("records", pa.int64()),
        ("size_bytes", pa.int64()),
        ("end_offset", pa.int64()),
    ]
)

_PRODUCER = struct.Struct(">qhi")
_PRODUCER_POSITION = 43
_CRC = struct.Struct(">I")

_NEW_EPOCH_HELPS = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)


class WritePlan(NamedTuple):
    """What the tasks that write have to know; made by the driver."""

    options: SinkOptions
    identity: ProducerIdentity
    next_sequences: Mapping[TopicPartition, int]
    partitions: frozenset[TopicPartition]
    """Those that are in the transaction; brokers before Kafka 3.6 would write to others outside of it."""


class WriteResult(NamedTuple):
    status: str
    detail: str = ""
    topic: str = ""
    partition: int = -1
    records: int = 0
    size_bytes: int = 0
    end_offset: int = -1
    """The offset behind the last record; -1 if the broker did not tell it."""


class Written(NamedTuple):
    """What has been written to a partition."""

    records: int = 0
    size_bytes: int = 0
    end_offset: int = -1


class _Block(NamedTuple):
    where: TopicPartition
    records: int
    batch: bytearray


class BlockWriter:
    """Writes blocks, each at most once; those of one partition in the order in which they come."""

    def __init__(self, plan: WritePlan, cluster: SinkCluster) -> None:
        self._plan = plan
        self._cluster = cluster
        self._sequences: dict[TopicPartition, int] = dict(plan.next_sequences)
        self._gathered: dict[TopicPartition, _Block] = {}
        self._under_way: deque[tuple[list[_Block], Pending[ProduceResponse] | None]] = deque()
        self.written: dict[TopicPartition, Written] = {}

    def write(self, topic: str, partition: int, records: int, batch: Any) -> None:
        """Returns before the block is written, or even sent; raises what cannot be mended.

        Blocks of several partitions share a request, so that a broker can make them durable together.
        """
        where = (topic, partition)
        if where not in self._plan.partitions:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, f"{topic}-{partition} {NOT_REPORTED}")
        size_bytes = sum(len(block.batch) for block in self._gathered.values()) + len(batch)
        if where in self._gathered or size_bytes > REQUEST_SIZE_BYTES_MAX:
            self._send_gathered()
        self._gathered[where] = _Block(where, records, self._sign(where, records, batch))

    def flush(self) -> None:
        self._send_gathered()
        while self._under_way:
            self._settle_oldest()

    def _sign(self, where: TopicPartition, records: int, batch: Any) -> bytearray:
        """Fills in the producer, which the CRC covers."""
        sequence = self._sequences.get(where, 0)
        self._sequences[where] = (sequence + records) & SEQUENCE_MASK
        signed = bytearray(batch)
        _PRODUCER.pack_into(signed, _PRODUCER_POSITION, *self._plan.identity, sequence)
        _CRC.pack_into(signed, CRC_POSITION, compute_crc(memoryview(signed)))
        return signed

    def _send_gathered(self) -> None:
        blocks = list(self._gathered.values())
        self._gathered.clear()
        for some in self._by_leader(blocks):
            self._under_way.append((some, self._begin(some)))
            if len(self._under_way) >= UNDER_WAY_MAX:
                self._settle_oldest()

    def _by_leader(self, blocks: list[_Block]) -> list[list[_Block]]:
        found: dict[int, list[_Block]] = {}
        try:
            for block in blocks:
                found.setdefault(self._cluster.leader_id(*block.where), []).append(block)
        except (ClientError, KafkaError) as error:
            if not self._cluster.may_pass(error):
                raise
            # Not to be sent now. Settling sends them one by one.
            return [blocks]
        return list(found.values())

    def _begin(self, blocks: list[_Block]) -> Pending[ProduceResponse] | None:
        """None says that they could not be sent, which is settled when their turn comes; no later ones overtake."""
        if self._under_way and self._under_way[-1][1] is None:
            return None
        try:
            return self._send(blocks)
        except (ClientError, KafkaError) as error:
            if not self._cluster.may_pass(error):
                raise
            return None

    def _send(self, blocks: list[_Block]) -> Pending[ProduceResponse]:
        """Sends blocks of partitions that one broker leads."""
        leader_ids = {self._cluster.leader_id(*block.where) for block in blocks}
        if len(leader_ids) > 1:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the partitions have several leaders")
        topics: dict[str, list[PartitionProduceData]] = {}
        for block in blocks:
            topic, partition = block.where
            topics.setdefault(topic, []).append(PartitionProduceData(index=partition, records=block.batch))
        request = ProduceRequest(
            transactional_id=self._plan.options.transactional_id,
            acks=ACKS_ALL,
            timeout_ms=self._cluster.timeout_ms,
            topic_data=[TopicProduceData(name=topic, partition_data=data) for topic, data in topics.items()],
        )
        return self._cluster.connection(leader_ids.pop()).begin(request, ProduceResponse)

    def _settle_oldest(self) -> None:
        blocks, pending = self._under_way.popleft()
        left = blocks if pending is None else self._take(blocks, pending)
        if not left:
            return
        later = list(self._under_way)
        self._under_way.clear()
        for _, each in later:
            self._drain(each)
        for block in (*left, *(block for some, _ in later for block in some)):
            self._send_again(block)

    def _drain(self, pending: Pending[ProduceResponse] | None) -> None:
        """Reads an answer that no longer matters: its blocks are sent again whatever it says."""
        if pending is not None:
            try:
                pending.wait()
            except ClientError as error:
                if not self._cluster.may_pass(error):
                    raise

    def _send_again(self, block: _Block) -> None:
        backoff = Backoff(self._plan.options.delivery_timeout_ms)
        while True:
            try:
                return self._note(block, self._send([block]).wait())
            except (ClientError, KafkaError) as error:
                if not self._cluster.may_pass(error) or not backoff.wait():
                    raise
                self._cluster.forget(block.where[0])

    def _take(self, blocks: list[_Block], pending: Pending[ProduceResponse]) -> list[_Block]:
        """Gives the blocks that were refused for a reason that may pass."""
        try:
            answer = pending.wait()
        except ClientError as error:
            self._check_passing(error, blocks)
            return blocks
        left: list[_Block] = []
        for block in blocks:
            try:
                self._note(block, answer)
            except KafkaError as error:
                self._check_passing(error, [block])
                left.append(block)
        return left

    def _check_passing(self, error: ClientError | KafkaError, blocks: list[_Block]) -> None:
        if not self._cluster.may_pass(error):
            raise error
        for block in blocks:
            self._cluster.forget(block.where[0])

    def _note(self, block: _Block, answer: ProduceResponse) -> None:
        """Counts the block as written, or raises what the broker says about it."""
        found = _response_to(block.where, answer)
        code = known_code(found.error_code)
        if code not in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            reasons = [found.error_message, *(each.batch_index_error_message for each in found.record_errors)]
            reason = next(filter(None, reasons), code.name)
            raise KafkaError(code, f"{block.where[0]}-{block.where[1]}: {reason}")
        before = self.written.get(block.where, Written())
        end_offset = found.base_offset + block.records if found.base_offset >= 0 else -1
        self.written[block.where] = Written(
            before.records + block.records, before.size_bytes + len(block.batch), max(before.end_offset, end_offset)
        )


def _response_to(where: TopicPartition, answer: ProduceResponse) -> PartitionProduceResponse:
    for topic in answer.responses:
        for partition in topic.partition_responses:
            if (topic.name, partition.index) == where:
                return partition
    raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the broker did not answer for {where[0]}-{where[1]}")


def write_blocks(plan: WritePlan, attempt_number: int, batches: Iterator[Any]) -> Iterator[Any]:
    """The work of a task: takes Arrow batches with blocks, gives one Arrow batch with its results."""
    results: list[WriteResult] = []
    try:
        with SinkCluster.open(plan.options) as cluster:
            writer = BlockWriter(plan, cluster)
            for batch in batches:
                if attempt_number or _is_repeated(batch):
                    results = [WriteResult(REPEATED, "Spark ran a task of the batch again")]
                    break
                places = (batch.column(name).to_pylist() for name in ("topic", "partition", "records"))
                for topic, partition, records, block in zip(*places, batch.column("batch"), strict=True):
                    writer.write(topic, partition, records, block.as_buffer())
            else:
                writer.flush()
                results = [
                    WriteResult(WRITTEN, "", topic, partition, *written)
                    for (topic, partition), written in writer.written.items()
                ]
    except KafkaError as error:
        results = [WriteResult(REFUSED if error.code in _NEW_EPOCH_HELPS else FAILED, str(error))]
    except ClientError as error:
        results = [WriteResult(FAILED, str(error))]
    columns = zip(*results, strict=True) if results else ([] for _ in _ARROW_SCHEMA)
    arrays = [pa.array(list(c), type=field.type) for c, field in zip(columns, _ARROW_SCHEMA, strict=True)]
    yield pa.RecordBatch.from_arrays(arrays, schema=_ARROW_SCHEMA)


def _is_repeated(batch: Any) -> bool:
    """Whether this is not the first attempt at the task, or not the first of its stage."""
    return not all(map(is_first_attempt, batch.column(ATTEMPT_COLUMN).unique().to_pylist()))
