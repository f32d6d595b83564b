"""`format("oncelog")` for `df.write` and `df.writeStream`, on PySpark's Python Data Source API.

The API runs `write` in one task for each partition of the data, in any number of attempts, and then `commit` once in
a process beside the driver. It has no hook between the two for bringing rows together by output partition, nor one
before the tasks. So the tasks only encode, and their blocks travel to `commit` with their reports; `commit` writes
all of them in one transaction. The guarantee is the sink's own, with these differences: the whole batch passes through
the driver (`spark.driver.maxResultSize` bounds it), and the source's offsets are not known, so that lag tools see
nothing, and a batch that Spark planned anew under an old number is taken for the old one.
Use `exactly_once_sink` for large batches.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)
from pyspark.sql.utils import is_remote

from oncelog.client.cluster import TopicPartition
from oncelog.client.errors import ClientError, UnknownTopic
from oncelog.client.producer import ProducerIdentity
from oncelog.named_tuple import NamedTuple
from oncelog.protocol.errors import KafkaError
from oncelog.spark.blocks import BlockEncoder, EncodePlan
from oncelog.spark.cluster import SinkCluster
from oncelog.spark.columns import check_columns
from oncelog.spark.errors import OutcomeUnknown, Repeat, SinkError
from oncelog.spark.internals import QUERY_ID_PROPERTY
from oncelog.spark.marker import Marker, newest_marker
from oncelog.spark.options import SinkOptions, parse_options
from oncelog.spark.progress import output_offsets, output_places
from oncelog.spark.query import DEFERRED_PROGRESS
from oncelog.spark.topics import describe_topic
from oncelog.spark.transaction import CommittedOffset, Transactions
from oncelog.spark.triggers import refuse_other_remote_triggers, refuse_other_triggers
from oncelog.spark.writing import BlockWriter, WritePlan

NAME = "oncelog"
ONLY_WRITES = 'format("oncelog") only writes: read the topic with Spark\'s own connector, format("kafka")'
_JOB = "job "
_NAMED_JOB = "write "
"""So begin the markers of batch jobs; jobs may follow each other under one id, but not mix with a stream."""


class EncodedBlock(NamedTuple):
    topic: str
    partition: int
    task: int
    number: int
    records: int
    batch: bytes


class BlocksMessage(WriterCommitMessage):
    """What a task reports: its blocks, and the query that it works for."""

    def __init__(self, blocks: list[EncodedBlock], query_id: str) -> None:
        self.blocks = blocks
        self.query_id = query_id


class _Work(NamedTuple):
    options: SinkOptions
    columns: list[str]
    write_id: str = ""
    """The name of a batch job, under which it is written once."""


class _BlockWriting:
    """What both writers do: encode in the tasks, write in one transaction at the end."""

    def __init__(self, work: _Work) -> None:
        self._work = work

    def write(self, iterator: Iterator[Any]) -> BlocksMessage:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "this runs in a task"
        encoder = BlockEncoder(EncodePlan(self._work.options, {}, [0]), context.partitionId())
        chosen = (batch.select(self._work.columns) for batch in iterator)
        blocks = [EncodedBlock(*(c[0].as_py() for c in found.columns[1:])) for found in encoder.encode(chosen)]
        return BlocksMessage(blocks, context.getLocalProperty(QUERY_ID_PROPERTY) or "")

    def _commit(self, messages: list[Any], marker: Marker) -> None:
        options = self._work.options
        blocks = sorted(block for message in messages for block in message.blocks)
        if not blocks:
            return
        try:
            with SinkCluster.open(options) as cluster:
                DriverTransaction(cluster, options, marker).write(blocks)
        except (ClientError, KafkaError, Repeat) as error:
            raise SinkError(f"batch {marker.batch} is not committed: {error}") from error


class DriverTransaction:
    """One transaction with all blocks of a batch, written from here."""

    def __init__(self, cluster: SinkCluster, options: SinkOptions, marker: Marker) -> None:
        self._cluster = cluster
        self._options = options
        self._marker = marker
        self._transactions = Transactions(cluster, options)
        self._committed: dict[TopicPartition, CommittedOffset] = {}

    def write(self, blocks: list[EncodedBlock]) -> None:
        identity = self._transactions.fence()
        if self._is_committed():
            return
        try:
            self._write(identity, blocks)
        except OutcomeUnknown:
            # The new epoch has ended the transaction one way or the other, and the marker says which.
            self._transactions.fence()
            if self._newest() != self._marker:
                raise
        except BaseException:
            # Aborts at once, so that readers need not wait for the transaction's timeout. The reason matters more.
            with suppress(ClientError, KafkaError, SinkError):
                self._transactions.fence()
            raise

    def _newest(self) -> Marker | None:
        self._committed = self._transactions.committed()
        return newest_marker((each.metadata for each in self._committed.values()), self._marker.query)

    def _is_committed(self) -> bool:
        newest, marker = self._newest(), self._marker
        if newest is None:
            return False
        if newest.query != marker.query:
            if self._options.adopt or (_is_job(newest) and _is_job(marker)):
                return False
            raise SinkError(
                f"the transactional id {self._options.transactional_id!r} belongs to {newest.query}, not to"
                f" {marker.query}; use another one, or the option adopt to begin anew"
            )
        if marker.batch < newest.batch:
            raise SinkError(
                f"batch {newest.batch} of this query is committed already, and Spark runs batch {marker.batch}: the"
                " checkpoint is older than the output"
            )
        return newest.batch == marker.batch

    def _write(self, identity: ProducerIdentity, blocks: list[EncodedBlock]) -> None:
        touched: list[TopicPartition] = sorted({(block.topic, block.partition) for block in blocks})
        self._transactions.add_partitions(touched)
        writer = BlockWriter(WritePlan(self._options, identity, {}, frozenset(touched)), self._cluster)
        for block in blocks:
            writer.write(block.topic, block.partition, block.records, block.batch)
        writer.flush()
        # Behind the records of a partition comes the mark of the transaction's end.
        ends = {where: written.end_offset + 1 for where, written in writer.written.items()}
        places = output_places(self._committed, {})
        here = self._cluster.existing(list(places), self._options.delivery_timeout_ms)
        offsets = output_offsets(ends, {where: places[where] for where in here})
        metadata = self._marker.encode()
        self._transactions.commit_offsets(
            {where: CommittedOffset(offset, metadata) for where, offset in offsets.items()}, optional=offsets
        )
        self._transactions.commit()


def _is_job(marker: Marker) -> bool:
    return marker.query.startswith((_JOB, _NAMED_JOB))


def _query_of(messages: list[Any]) -> str:
    """The streaming query in which the tasks ran; empty if there was none."""
    return next((each.query_id for each in messages), "")


class OncelogStreamWriter(_BlockWriting, DataSourceStreamWriter, DataSourceArrowWriter):
    def commit(self, messages: list[Any], batchId: int) -> None:
        if None in messages:
            raise SinkError(f"batch {batchId} is not committed: Spark did not give its rows to the writer")
        query_id = _query_of(messages)
        if messages and not query_id:
            raise SinkError(f"batch {batchId} is not committed: Spark does not say which query it belongs to")
        self._commit(messages, Marker(query_id, batchId))

    def abort(self, messages: list[Any], batchId: int) -> None:
        """Nothing was sent, so nothing has to be undone."""


class OncelogWriter(_BlockWriting, DataSourceArrowWriter):
    def commit(self, messages: list[Any]) -> None:
        name = self._work.write_id
        if not name and _query_of(messages):
            raise SinkError(
                "a write from foreachBatch would be repeated with the batch; use exactly_once_sink there, or name query"
                " and batch in the option write_id"
            )
        # Without a name, the marker serves this one call, for finding out what became of a commit.
        self._commit(messages, Marker(f"{_NAMED_JOB}{name}" if name else f"{_JOB}{uuid.uuid4()}", 0))

    def abort(self, messages: list[Any]) -> None:
        """Nothing was sent, so nothing has to be undone."""


class OncelogDataSource(DataSource):
    """Register it once: `spark.dataSource.register(OncelogDataSource)`."""

    @classmethod
    def name(cls) -> str:
        """Asked for when the data source is registered, and so with a session, whose class has to refuse triggers."""
        refuse_other_triggers(NAME)
        if is_remote():
            refuse_other_remote_triggers(NAME)
        return NAME

    def schema(self) -> Any:
        """Asked for by `spark.read` and `spark.readStream`, which may also give one and go on to a reader."""
        raise SinkError(ONLY_WRITES)

    def reader(self, schema: Any) -> Any:
        raise SinkError(ONLY_WRITES)

    def simpleStreamReader(self, schema: Any) -> Any:
        raise SinkError(ONLY_WRITES)

    def writer(self, schema: Any, overwrite: bool) -> OncelogWriter:
        """All rows of the job in one transaction; with the option `write_id`, at most once under that name."""
        if overwrite:
            raise SinkError("a topic cannot be overwritten; use mode('append')")
        return OncelogWriter(self._work(schema)._replace(write_id=self._option("write_id") or ""))

    def streamWriter(self, schema: Any, overwrite: bool) -> OncelogStreamWriter:
        if overwrite:
            raise SinkError("the output mode must be append")
        if (self._option("asyncProgressTrackingEnabled") or "false").lower() == "true":
            raise SinkError(f"asyncProgressTrackingEnabled is set: {DEFERRED_PROGRESS}")
        return OncelogStreamWriter(self._work(schema))

    def _option(self, name: str) -> str | None:
        found: str | None = self.options.get(name)
        return found

    def _work(self, schema: Any) -> _Work:
        """Options are checked, and a fixed topic looked up, before any task runs."""
        bootstrap, identity = self._option("bootstrap"), self._option("transactional_id")
        if not bootstrap or not identity:
            raise SinkError("the options bootstrap and transactional_id are needed")
        kafka = {key: value for key, value in self.options.items() if key.lower().startswith("kafka.")}
        adopt = (self._option("adopt") or "false").lower() == "true"
        options = parse_options(bootstrap, identity, self._option("topic"), adopt, kafka)
        columns = check_columns(schema, options.topic)
        if options.topic is not None:
            try:
                with SinkCluster.open(options) as cluster:
                    describe_topic(cluster, options.topic, options.delivery_timeout_ms)
            except UnknownTopic as error:
                raise SinkError(f"{error}; the sink does not create topics") from None
        return _Work(options, columns)
