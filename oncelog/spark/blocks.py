"""From Arrow batches to blocks: record batches that lack only their producer.

A block is a whole Kafka record batch, encoded, compressed and checked where the rows are, before the shuffle. What
the shuffle moves is therefore small and few, and a row that cannot be written is found before anything is sent. The
task that writes the block's partition fills in producer id, epoch and sequence.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oncelog.client.errors import ClientError, UnknownTopic
from oncelog.named_tuple import NamedTuple
from oncelog.protocol.errors import KafkaError
from oncelog.protocol.records.batch import (
    HEADER_SIZE,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    BatchHeader,
    assemble_batch,
)
from oncelog.protocol.records.columns import Column
from oncelog.spark.cluster import SinkCluster
from oncelog.spark.errors import BadRow
from oncelog.spark.options import SinkOptions
from oncelog.spark.partitions import Int32s, choose_partitions
from oncelog.spark.topics import TopicPlan, describe_topic

encode_records: Callable[..., tuple[bytes, int, int]]
try:
    from oncelog.protocol.records._native import encode_records
except ImportError:
    from oncelog.protocol.records.columns import encode_records

BLOCK_SCHEMA = "lane int, topic string, partition int, task int, block int, records int, batch binary"
_ARROW_SCHEMA = pa.schema(
    [
        ("lane", pa.int32()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("task", pa.int32()),
        ("block", pa.int32()),
        ("records", pa.int32()),
        ("batch", pa.binary()),
    ]
)


class EncodePlan(NamedTuple):
    """What the tasks that encode have to know; made by the driver."""

    options: SinkOptions
    topics: Mapping[str, TopicPlan]
    lane_keys: Sequence[int]


class _Block:
    """The open block of one partition."""

    __slots__ = ("base_timestamp", "bodies", "count", "max_timestamp", "number", "size_bytes")

    def __init__(self, number: int, base_timestamp: int) -> None:
        self.number = number
        self.base_timestamp = base_timestamp
        self.max_timestamp = -1
        self.count = 0
        self.size_bytes = 0
        self.bodies: list[bytes] = []


class BlockEncoder:
    """Encodes the rows of one task; `task` is the number of its partition, which keeps the order of rows."""

    def __init__(self, plan: EncodePlan, task: int) -> None:
        self._plan = plan
        self._task = task
        self._topics = dict(plan.topics)
        self._open: dict[tuple[str, int], _Block] = {}
        self._block_counts: dict[tuple[str, int], int] = {}
        self._turn = task

    def encode(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Takes Arrow batches with the columns of the sink, gives Arrow batches with blocks."""
        for batch in batches:
            if batch.num_rows:
                for topic, rows in self._split_by_topic(batch):
                    yield from self._add(topic, rows)
        for where, block in self._open.items():
            yield self._finish(where, block)

    @property
    def partitions(self) -> frozenset[tuple[str, int]]:
        """Those that have got rows."""
        return frozenset(self._block_counts)

    def _split_by_topic(self, batch: Any) -> Iterator[tuple[str, Any]]:
        if self._plan.options.topic is not None:
            yield self._plan.options.topic, batch
            return
        names = batch.column("topic")
        if names.null_count:
            raise BadRow("a row has no topic: the column `topic` is null, and the sink has no option `topic`")
        for topic in names.unique().to_pylist():
            yield topic, batch.filter(pc.equal(names, topic))

    def _add(self, topic: str, batch: Any) -> Iterator[Any]:
        columns = _Columns(batch)
        partitions = self._partitions(topic, batch, columns)
        order = np.argsort(partitions, kind="stable").astype(np.int32)
        ordered = partitions[order]
        starts = np.flatnonzero(np.diff(ordered, prepend=-1))
        for start, end in zip(starts, [*starts[1:], len(ordered)], strict=True):
            yield from self._append((topic, int(ordered[start])), columns, order[start:end])

    def _partitions(self, topic: str, batch: Any, columns: _Columns) -> Int32s:
        count = self._topic(topic).partition_count
        self._turn += 1
        if "partition" not in batch.schema.names:
            return choose_partitions(columns.keys, batch.num_rows, count, self._turn % count)
        given = batch.column("partition")
        asked = given.fill_null(-1).to_numpy(zero_copy_only=False)
        wrong = np.flatnonzero((asked >= count) | ((asked < 0) & given.is_valid().to_numpy(zero_copy_only=False)))
        if len(wrong):
            raise BadRow(f"partition {asked[wrong[0]]} is out of range: topic {topic!r} has {count} partitions")
        if not given.null_count:
            return np.asarray(asked, dtype=np.int32)
        chosen = choose_partitions(columns.keys, batch.num_rows, count, self._turn % count)
        return np.where(asked >= 0, asked, chosen).astype(np.int32)

    def _topic(self, name: str) -> TopicPlan:
        plan = self._topics.get(name)
        if plan is None:
            plan = self._topics[name] = ask_topic(self._plan.options, name)
        return plan

    def _append(self, where: tuple[str, int], columns: _Columns, rows: Int32s) -> Iterator[Any]:
        options = self._plan.options
        size_bytes_max = min(options.batch_size_bytes, self._topic(where[0]).message_size_bytes_max - HEADER_SIZE)
        place = 0
        while place < len(rows):
            block = self._open.get(where)
            if block is None:
                number = self._block_counts.get(where, 0)
                self._block_counts[where] = number + 1
                block = self._open[where] = _Block(number, int(columns.timestamps[rows[place]]))
            left = size_bytes_max - block.size_bytes
            body, after, newest = encode_records(
                rows, place, block.count, block.base_timestamp, left, columns.timestamps, *columns.buffers
            )
            block.bodies.append(body)
            block.size_bytes += len(body)
            block.count += after - place
            block.max_timestamp = max(block.max_timestamp, newest)
            place = after
            if place < len(rows):
                del self._open[where]
                yield self._finish(where, block)

    def _finish(self, where: tuple[str, int], block: _Block) -> Any:
        topic, partition = where
        header = BatchHeader(
            base_offset=0,
            batch_length=0,
            leader_epoch=NO_LEADER_EPOCH,
            magic=MAGIC,
            crc=0,
            attributes=self._plan.options.compression | TRANSACTIONAL_BIT,
            last_offset_delta=block.count - 1,
            base_timestamp=block.base_timestamp,
            max_timestamp=block.max_timestamp,
            producer_id=NO_PRODUCER_ID,
            producer_epoch=NO_PRODUCER_EPOCH,
            base_sequence=NO_SEQUENCE,
            record_count=block.count,
        )
        plain = b"".join(block.bodies)
        encoded = assemble_batch(header, plain)
        limit = self._topic(topic).message_size_bytes_max
        if len(encoded) > limit >= HEADER_SIZE + len(plain):
            # A codec makes what it cannot compress a little larger than it was.
            encoded = assemble_batch(header._replace(attributes=TRANSACTIONAL_BIT), plain)
        if len(encoded) > limit:
            raise BadRow(
                f"a record for {topic}-{partition} is too large: its batch has {len(encoded)} bytes,"
                f" max.message.bytes of the topic is {limit}"
            )
        keys = self._plan.lane_keys
        lane = keys[(zlib.crc32(topic.encode()) + partition) % len(keys)]
        row = (lane, topic, partition, self._task, block.number, block.count, bytes(encoded))
        columns = [pa.array([value], type=field.type) for value, field in zip(row, _ARROW_SCHEMA, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=_ARROW_SCHEMA)


class _Columns:
    """The columns of one Arrow batch as the encoder wants them."""

    def __init__(self, batch: Any) -> None:
        names = batch.schema.names
        self.keys = binary_column(batch.column("key")) if "key" in names else None
        self.timestamps = _timestamps(batch)
        values = binary_column(batch.column("value"))
        headers = header_columns(batch.column("headers")) if "headers" in names else (None, None, None)
        self.buffers = (self.keys, values, *headers)


def binary_column(array: Any) -> Column | None:
    """The buffers of an Arrow array of binary or string."""
    if array.null_count == len(array):
        return None
    binary = array.cast(pa.binary())
    validity, offsets, data = binary.buffers()
    return Column(memoryview(offsets), _view(data), _view(validity), binary.offset)


def header_columns(array: Any) -> tuple[Column | None, Column | None, Column | None]:
    """The buffers of an Arrow array of lists of (key, value): of the lists, the keys and the values."""
    if array.null_count == len(array) or not len(array.values):
        return None, None, None
    validity, offsets = array.buffers()[:2]
    keys, values = array.values.field(0), array.values.field(1)
    if array.values.null_count or keys.null_count:
        raise BadRow("a header is null or has no key")
    lists = Column(memoryview(offsets), None, _view(validity), array.offset)
    return lists, binary_column(keys), binary_column(values)


def _view(buffer: Any) -> memoryview | None:
    return None if buffer is None else memoryview(buffer)


def _timestamps(batch: Any) -> Any:
    """Milliseconds for each row: its own if it has one, else now."""
    now_ms = int(time.time() * 1000)
    if "timestamp" not in batch.schema.names:
        return np.full(batch.num_rows, now_ms, dtype=np.int64)
    given = batch.column("timestamp").cast(pa.int64())
    found = given.fill_null(now_ms * 1000).to_numpy(zero_copy_only=False)
    if found.min() < 0:
        raise BadRow("a timestamp lies before 1970, which Kafka cannot express")
    return np.ascontiguousarray(found // 1000, dtype=np.int64)


def ask_topic(options: SinkOptions, name: str) -> TopicPlan:
    """For a topic that only the rows name: ask the cluster, once in a task."""
    try:
        with SinkCluster.open(options) as cluster:
            return describe_topic(cluster, name, options.delivery_timeout_ms)
    except UnknownTopic:
        raise BadRow(f"there is no topic {name!r}; the sink does not create topics") from None
    except (ClientError, KafkaError) as error:
        raise BadRow(f"topic {name!r} cannot be looked up: {error}") from None
