"""`format("oncelog")` for `df.write` and `df.writeStream`, on PySpark's Python Data Source API.

The API runs `write` in one task for each partition of the data, in any number of attempts, and then `commit` once in
a process beside the driver. It has no hook between the two for bringing rows together by output partition, nor one
before the tasks. So the tasks only encode, and their blocks travel to `commit` with their reports; `commit` writes
all of them in one transaction. The guarantee is the sink's own, with two differences: the whole batch passes through
the driver (`spark.driver.maxResultSize` bounds it), and the source's offsets are not known, so lag tools see nothing.
Use `exactly_once_sink` for large batches.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)

from oncelog.client.cluster import TopicPartition
from oncelog.client.errors import ClientError, UnknownTopic
from oncelog.client.producer import ProducerIdentity
from oncelog.protocol.errors import KafkaError
from oncelog.spark.blocks import BlockEncoder, EncodePlan
from oncelog.spark.cluster import SinkCluster
from oncelog.spark.columns import check_columns
from oncelog.spark.errors import Repeat, SinkError
from oncelog.spark.marker import Marker, newest_marker
from oncelog.spark.options import SinkOptions, parse_options
from oncelog.spark.topics import describe_topic
from oncelog.spark.transaction import CommittedOffset, Transactions
from oncelog.spark.writing import BlockWriter, WritePlan


class EncodedBlock(NamedTuple):
    topic: str
    partition: int
    task: int
    number: int
    records: int
    batch: bytes


class BlocksMessage(WriterCommitMessage):
    """What a task reports: its blocks, compressed if they are not already."""

    def __init__(self, blocks: list[EncodedBlock]) -> None:
        self.blocks = blocks


class _Work(NamedTuple):
    options: SinkOptions
    columns: list[str]
    identity: str
    """Who writes: the checkpoint of a query, or the `write_id` of a batch job; empty if it has none."""


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
        return BlocksMessage(
            [EncodedBlock(*(column[0].as_py() for column in found.columns[1:])) for found in encoder.encode(chosen)]
        )

    def _commit(self, messages: list[Any], batch_id: int) -> None:
        options = self._work.options
        blocks = sorted(block for message in messages if message is not None for block in message.blocks)
        try:
            with SinkCluster.open(options) as cluster:
                _write_transaction(cluster, self._work, batch_id, blocks)
        except (ClientError, KafkaError, Repeat) as error:
            raise SinkError(f"batch {batch_id} is not committed: {error}") from error


def _write_transaction(cluster: SinkCluster, work: _Work, batch_id: int, blocks: list[EncodedBlock]) -> None:
    options = work.options
    transactions = Transactions(cluster, options)
    identity = transactions.fence()
    if work.identity:
        committed = transactions.committed()
        newest = newest_marker((each.metadata for each in committed.values()), work.identity)
        if newest is not None and newest.query == work.identity and newest.batch >= batch_id:
            return
        if newest is not None and newest.query != work.identity and not options.adopt:
            raise SinkError(
                f"the transactional id {options.transactional_id!r} belongs to {newest.query}, not to"
                f" {work.identity}; use another one, or the option adopt to begin anew"
            )
    if blocks:
        try:
            _write_blocks(cluster, transactions, identity, work, batch_id, blocks)
        except (ClientError, KafkaError, Repeat):
            # Aborts at once, so that readers need not wait for the transaction's timeout.
            transactions.fence()
            raise


def _write_blocks(
    cluster: SinkCluster,
    transactions: Transactions,
    identity: ProducerIdentity,
    work: _Work,
    batch_id: int,
    blocks: list[EncodedBlock],
) -> None:
    options = work.options
    touched: list[TopicPartition] = sorted({(block.topic, block.partition) for block in blocks})
    transactions.add_partitions(touched)
    writer = BlockWriter(WritePlan(options, identity, {}), cluster)
    for block in blocks:
        writer.write(block.topic, block.partition, block.records, block.batch)
    writer.flush()
    if work.identity:
        metadata = Marker(work.identity, batch_id).encode()
        transactions.commit_offsets({touched[0]: CommittedOffset(batch_id, metadata)})
    transactions.commit()


class OncelogStreamWriter(_BlockWriting, DataSourceStreamWriter, DataSourceArrowWriter):
    def commit(self, messages: list[Any], batchId: int) -> None:
        self._commit(messages, batchId)

    def abort(self, messages: list[Any], batchId: int) -> None:
        """Nothing was sent, so nothing has to be undone."""


class OncelogWriter(_BlockWriting, DataSourceArrowWriter):
    def commit(self, messages: list[Any]) -> None:
        self._commit(messages, 0)

    def abort(self, messages: list[Any]) -> None:
        """Nothing was sent, so nothing has to be undone."""


class OncelogDataSource(DataSource):
    """Register it once: `spark.dataSource.register(OncelogDataSource)`."""

    @classmethod
    def name(cls) -> str:
        return "oncelog"

    def writer(self, schema: Any, overwrite: bool) -> OncelogWriter:
        """All rows of the job in one transaction; with the option `write_id`, at most once under that name."""
        if overwrite:
            raise SinkError("a topic cannot be overwritten; use mode('append')")
        work = self._work(schema)
        return OncelogWriter(work._replace(identity=self._option("write_id") or ""))

    def streamWriter(self, schema: Any, overwrite: bool) -> OncelogStreamWriter:
        if overwrite:
            raise SinkError("the output mode must be append")
        checkpoint = self._option("checkpointLocation")
        if not checkpoint:
            raise SinkError("give the option checkpointLocation: it is how a repeated batch is recognised")
        digest = hashlib.sha256(checkpoint.encode()).hexdigest()[:32]
        return OncelogStreamWriter(self._work(schema)._replace(identity=f"checkpoint {digest}"))

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
        return _Work(options, columns, "")
