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

WRITTEN = "written"
REPEATED = "repeated"
REFUSED = "refused"
FAILED = "failed"
"""`refused` may go away under a new epoch, `failed` would fail again."""

RESULT_SCHEMA = "status string, detail string, topic string, partition int, records long, size_bytes long"
ATTEMPT_COLUMN = "attempt"
_ARROW_SCHEMA = pa.schema(
    [
        ("status", pa.string()),
        ("detail", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("records", pa.int64()),
        ("size_bytes", pa.int64()),
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


class WriteResult(NamedTuple):
    status: str
    detail: str = ""
    topic: str = ""
    partition: int = -1
    records: int = 0
    size_bytes: int = 0


class _Block(NamedTuple):
    where: TopicPartition
    records: int
    batch: bytearray


class BlockWriter:
    """Writes blocks of several partitions, one after the other, each at most once."""

    def __init__(self, plan: WritePlan, cluster: SinkCluster) -> None:
        self._plan = plan
        self._cluster = cluster
        self._sequences: dict[TopicPartition, int] = dict(plan.next_sequences)
        self._under_way: deque[tuple[_Block, Pending[ProduceResponse] | None]] = deque()
        self.written: dict[TopicPartition, tuple[int, int]] = {}

    def write(self, topic: str, partition: int, records: int, batch: Any) -> None:
        """Sends a block and returns, unless enough others are under way; raises what cannot be mended."""
        where = (topic, partition)
        block = _Block(where, records, self._sign(where, records, batch))
        self._under_way.append((block, self._begin(block)))
        if len(self._under_way) >= UNDER_WAY_MAX:
            self._settle_oldest()

    def flush(self) -> None:
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

    def _begin(self, block: _Block) -> Pending[ProduceResponse] | None:
        """None says that it could not be sent, which is settled when its turn comes; no later block overtakes it."""
        if self._under_way and self._under_way[-1][1] is None:
            return None
        try:
            return self._send(block)
        except (ClientError, KafkaError) as error:
            if not self._cluster.may_pass(error):
                raise
            return None

    def _send(self, block: _Block) -> Pending[ProduceResponse]:
        topic, partition = block.where
        leader_id = self._cluster.leader_id(topic, partition)
        data = PartitionProduceData(index=partition, records=block.batch)
        request = ProduceRequest(
            transactional_id=self._plan.options.transactional_id,
            acks=ACKS_ALL,
            timeout_ms=self._cluster.timeout_ms,
            topic_data=[TopicProduceData(name=topic, partition_data=[data])],
        )
        return self._cluster.connection(leader_id).begin(request, ProduceResponse)

    def _settle_oldest(self) -> None:
        block, pending = self._under_way[0]
        if pending is not None and self._succeeded(block, pending):
            self._under_way.popleft()
            return
        unsettled = [block for block, _ in self._under_way]
        for _, later in list(self._under_way)[1:]:
            self._drain(later)
        self._under_way.clear()
        for each in unsettled:
            self._send_again(each)

    def _succeeded(self, block: _Block, pending: Pending[ProduceResponse]) -> bool:
        """False for a failure that may pass."""
        try:
            self._take(block, pending.wait())
        except (ClientError, KafkaError) as error:
            if not self._cluster.may_pass(error):
                raise
            self._cluster.forget(block.where[0])
            return False
        return True

    def _drain(self, pending: Pending[ProduceResponse] | None) -> None:
        """Reads an answer that no longer matters: its block is sent again whatever it says."""
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
                return self._take(block, self._send(block).wait())
            except (ClientError, KafkaError) as error:
                if not self._cluster.may_pass(error) or not backoff.wait():
                    raise
                self._cluster.forget(block.where[0])

    def _take(self, block: _Block, answer: ProduceResponse) -> None:
        found = answer.responses[0].partition_responses[0]
        code = known_code(found.error_code)
        if code not in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            reasons = [found.error_message, *(each.batch_index_error_message for each in found.record_errors)]
            reason = next(filter(None, reasons), code.name)
            raise KafkaError(code, f"{block.where[0]}-{block.where[1]}: {reason}")
        records, size_bytes = self.written.get(block.where, (0, 0))
        self.written[block.where] = (records + block.records, size_bytes + len(block.batch))


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
                    WriteResult(WRITTEN, "", topic, partition, records, size_bytes)
                    for (topic, partition), (records, size_bytes) in writer.written.items()
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
