"""`exactly_once_sink`: one micro-batch of a streaming query is one Kafka transaction.

For each batch the driver

1. looks up what the last transaction committed, and skips a batch that is in it;
2. has the rows encoded into blocks where they are, and the blocks brought together by partition, so that each output
   partition is written by one task;
3. adds the partitions to the transaction; the tasks write with the driver's producer id and epoch;
4. commits the source's offsets with the batch's number in the same transaction, and ends it.

Whatever goes wrong before the end leaves an open transaction. It is aborted by the next bump of the epoch, in this
driver or in the one that replaces it, and nobody with an older epoch can write any more.
"""

from __future__ import annotations

import logging
from collections import deque
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from oncelog.client.cluster import Backoff, TopicPartition
from oncelog.client.errors import ClientError, UnknownTopic
from oncelog.protocol.errors import KafkaError
from oncelog.protocol.records.batch import SEQUENCE_MASK
from oncelog.spark.blocks import EncodePlan
from oncelog.spark.claims import Claims, SinkName
from oncelog.spark.cluster import SinkCluster
from oncelog.spark.columns import check_columns
from oncelog.spark.errors import OutcomeUnknown, Repeat, SinkError
from oncelog.spark.gathering import Gathered, collect, gather
from oncelog.spark.internals import THREAD_EXPRESSION, add_durations, check_spark, core_setting, is_remote, parallelism
from oncelog.spark.marker import Marker, newest_marker
from oncelog.spark.options import SinkOptions, parse_options
from oncelog.spark.partitions import lane_keys
from oncelog.spark.progress import output_offsets, output_places
from oncelog.spark.query import QueryState, check_planned, check_query, has_state, is_running, read_query
from oncelog.spark.report import REPORTS_MAX, BatchReport, Phases
from oncelog.spark.tasks import Touched, new_touched, write_task
from oncelog.spark.topics import TopicPlan, describe_topic
from oncelog.spark.transaction import CommittedOffset, Transactions
from oncelog.spark.writing import (
    ATTEMPT_COLUMN,
    FAILED,
    NOT_REPORTED,
    RESULT_SCHEMA,
    WRITTEN,
    WritePlan,
    WriteResult,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

logger = logging.getLogger(__name__)

ARROW_BATCH_SIZE_BYTES = 2 * 1024 * 1024

_claims = Claims()


def exactly_once_sink(
    bootstrap: str,
    *,
    transactional_id: str,
    topic: str | None = None,
    adopt: bool = False,
    checkpoint: str | None = None,
    **options: object,
) -> ExactlyOnceSink:
    """A function for `writeStream.foreachBatch`.

    Rows have a column `value` and, as they like, `key`, `headers`, `topic`, `partition` and `timestamp`; `topic`
    here overrides the column. Further options are the producer's settings as `kafka.*`, given as
    `**{"kafka.compression.type": "zstd"}`. The checkpoint and the transactional id belong together: with `adopt`,
    a query takes over an id whose last batch came from another checkpoint. `checkpoint` is the query's
    `checkpointLocation`; it has to be named over Spark Connect only.
    """
    parsed = parse_options(bootstrap, transactional_id, topic, adopt, options)
    return ExactlyOnceSink(parsed._replace(checkpoint=checkpoint))


class ExactlyOnceSink:
    """Called by Spark with each batch, always from the thread of its query."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options
        self._cluster = SinkCluster.open(options)
        self.reports: deque[BatchReport] = deque(maxlen=REPORTS_MAX)
        self._phases = Phases()
        self._retries = 0
        self._transactions: Transactions | None = None
        self._committed: dict[TopicPartition, CommittedOffset] = {}
        self._newest: Marker | None = None
        self._fence_due = True
        self._adopted = False
        self._prepared_run = ""
        self._parallelism = 1
        self._touched: Touched | None = None
        self._has_lost_reports = False
        """Whether Spark has lost what tasks reported in the accumulator; the blocks are looked at from then on."""

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        columns = check_columns(batch.schema, self.options.topic)
        query = read_query(batch.sparkSession, batch_id, self.options.checkpoint)
        self._prepare_session(batch.sparkSession, query)
        check_planned(query, batch_id)
        try:
            name = SinkName(self._cluster.identify(self.options.delivery_timeout_ms), self.options.transactional_id)
            if _claims.take(name, query, batch_id, partial(is_running, batch.sparkSession)):
                # A new run takes over, as a new driver would; the epoch of the last run is not asked for.
                self._transactions, self._fence_due = None, True
            self._phases, self._retries = Phases(), 0
            self._note(batch.sparkSession, self._run(batch.select(*columns), batch_id, query))
        except UnknownTopic as error:
            raise SinkError(f"{error}; the sink does not create topics") from None
        except (ClientError, KafkaError) as error:
            raise SinkError(f"batch {batch_id} is not committed: {error}") from error
        _claims.note_written(name, query, batch_id)

    @property
    def last_report(self) -> BatchReport | None:
        return self.reports[-1] if self.reports else None

    def _note(self, spark: Any, report: BatchReport) -> None:
        self.reports.append(report)
        logger.info(
            "batch written: transactional_id=%s batch=%d records=%d partitions=%d producer_id=%d epoch=%d aborts=%d"
            " retries=%d skipped=%s %s",
            report.transactional_id,
            report.batch_id,
            report.records,
            report.partitions,
            report.producer_id,
            report.epoch,
            report.aborts,
            report.retries,
            report.skipped,
            " ".join(f"{phase}_ms={duration}" for phase, duration in report.durations_ms.items()),
        )
        add_durations(spark, report.query_id, {f"oncelog.{name}": ms for name, ms in report.durations_ms.items()})

    def close(self) -> None:
        """Closes the connections; the sink opens them again if it is used again."""
        self._cluster.close()

    def __del__(self) -> None:
        """Spark lets go of a sink whose query has ended without a word, and so do most programs."""
        self.close()

    # -- before the batch ------------------------------------------------------------------------------------

    def _prepare_session(self, spark: Any, query: QueryState) -> None:
        """Once in a run of the query, whose batches share a session; a batch without a query has its own."""
        if query.run_id and query.run_id == self._prepared_run:
            return
        prepare_session(spark)
        check_query(spark, query)
        self._parallelism = max(1, parallelism(spark))
        self._prepared_run = query.run_id

    def _fence(self, query: QueryState) -> Transactions:
        """A new epoch, and what was committed under the ones before."""
        if self._transactions is None:
            self._transactions = Transactions(self._cluster, self.options)
        with self._phases.of("fence"):
            self._transactions.fence()
            self._committed = self._transactions.committed()
        self._newest = newest_marker((each.metadata for each in self._committed.values()), query.query_id)
        self._fence_due = False
        return self._transactions

    def _is_committed(self, batch_id: int, query: QueryState) -> bool:
        newest = self._newest
        if newest is None:
            return False
        if newest.query != query.query_id:
            if not (self.options.adopt or self._adopted):
                raise SinkError(
                    f"the transactional id {self.options.transactional_id!r} belongs to query {newest.query}, which"
                    f" has committed batch {newest.batch}; this is query {query.query_id}. Use the checkpoint of that"
                    " query, or another transactional id, or adopt=True to begin anew"
                )
            self._adopted = True
            return False
        if batch_id < newest.batch:
            raise SinkError(
                f"batch {newest.batch} of this query is committed already, and Spark runs batch {batch_id}: the"
                " checkpoint is older than the output. Restore the newest checkpoint, or begin anew with adopt=True"
                " and a new checkpoint"
            )
        if newest.contradicts(Marker(query.query_id, batch_id, query.plan)):
            raise SinkError(
                f"batch {batch_id} of this query is committed already, with other rows than Spark has in it now: the"
                " checkpoint is older than the output, and the batch was planned anew. Restore the newest checkpoint,"
                " or begin anew with adopt=True and a new checkpoint"
            )
        return batch_id == newest.batch

    # -- the batch -------------------------------------------------------------------------------------------

    def _run(self, rows: DataFrame, batch_id: int, query: QueryState) -> BatchReport:
        backoff = Backoff(self.options.delivery_timeout_ms)
        for run in range(1, self.options.runs_max + 1):
            transactions = self._fence(query) if self._fence_due else self._transactions
            assert transactions is not None
            if self._is_committed(batch_id, query):
                logger.warning("batch %d was committed before; it is skipped", batch_id)
                if has_state(rows.sparkSession, query):
                    # Spark makes the state of the batch while its rows are read, and from 4.1 on checks that it did.
                    rows.write.format("noop").mode("append").save()
                return self._report(batch_id, query, [], run, skipped=True)
            self._fence_due = True
            try:
                results = self._write(rows, transactions, batch_id, query)
            except OutcomeUnknown as reason:
                logger.warning("what became of batch %d is being found out: %s", batch_id, reason)
                self._settle(batch_id, query)
            except Repeat as reason:
                logger.warning("batch %d is aborted and run again: %s", batch_id, reason)
                self._has_lost_reports |= NOT_REPORTED in str(reason)
                if run == self.options.runs_max:
                    self._fence(query)
                    raise SinkError(f"batch {batch_id} was aborted {run} times, the last time: {reason}") from None
                backoff.wait()
            except BaseException:
                self._abort(query)
                raise
            else:
                return self._report(batch_id, query, results, run, skipped=False)
        if self._is_committed(batch_id, query):
            return self._report(batch_id, query, [], self.options.runs_max, skipped=True)
        raise SinkError(f"batch {batch_id} was tried {self.options.runs_max} times, and no commit came through")

    def _settle(self, batch_id: int, query: QueryState) -> None:
        """A new epoch ends the transaction whose commit was not answered, either way; then it can be looked up."""
        try:
            self._fence(query)
        except (ClientError, KafkaError) as error:
            raise SinkError(
                f"whether batch {batch_id} is committed is not known, because the broker does not answer: {error}."
                " It is visible as a whole or not at all, and the query finds out when it is started again"
            ) from error

    def _abort(self, query: QueryState) -> None:
        """Aborts at once, so that readers need not wait for the timeout; the reason of the failure matters more."""
        try:
            self._fence(query)
        except (ClientError, KafkaError, SinkError) as error:
            logger.warning("the open transaction is left to its timeout: %s", error)
            self._fence_due = True

    def _write(
        self, rows: DataFrame, transactions: Transactions, batch_id: int, query: QueryState
    ) -> list[WriteResult]:
        assert transactions.identity is not None
        topics = self._topics()
        lane_count = self._lane_count(topics)
        plan = EncodePlan(self.options, topics, lane_keys(lane_count))
        try:
            with ExitStack() as stack:
                with self._phases.of("encode"):
                    gathered = stack.enter_context(gather(rows, plan, self._touched_by(rows)))
                with self._phases.of("write"):
                    results = self._write_blocks(gathered, transactions)
            with self._phases.of("commit"):
                self._commit(batch_id, query, results, transactions)
        finally:
            self._retries += transactions.retries
        for each in results:
            where = (each.topic, each.partition)
            before = transactions.next_sequences.get(where, 0)
            transactions.next_sequences[where] = (before + each.records) & SEQUENCE_MASK
        return results

    def _commit(self, batch_id: int, query: QueryState, results: list[WriteResult], transactions: Transactions) -> None:
        marker = Marker(query.query_id, batch_id, query.plan)
        sources, outputs = self._progress(query, results)
        offsets = {where: CommittedOffset(offset, marker.encode()) for where, offset in (sources | outputs).items()}
        if offsets:
            transactions.commit_offsets(offsets, optional=outputs)
        if offsets or results:
            self._fence_due = not transactions.commit()
        self._newest = marker
        self._committed |= offsets

    def _write_blocks(self, gathered: Gathered, transactions: Transactions) -> list[WriteResult]:
        from pyspark.sql.functions import expr

        if not gathered.partitions and gathered.is_exact:
            return []
        assert transactions.identity is not None
        if gathered.partitions:
            transactions.add_partitions(sorted(gathered.partitions))
        sequences = dict(transactions.next_sequences)
        plan = WritePlan(self.options, transactions.identity, sequences, gathered.partitions)
        marked = gathered.blocks.withColumn(ATTEMPT_COLUMN, expr(THREAD_EXPRESSION))
        rows = collect(marked.mapInArrow(partial(write_task, plan), RESULT_SCHEMA))
        return check_results([WriteResult(*row) for row in rows])

    def _touched_by(self, rows: DataFrame) -> Touched | None:
        """One accumulator for all batches: PySpark keeps each that was ever made. Spark Connect has none."""
        if self._has_lost_reports:
            return None
        if self._touched is None and not is_remote(rows.sparkSession):
            self._touched = new_touched(rows.sparkSession.sparkContext)
        return self._touched

    def _topics(self) -> dict[str, TopicPlan]:
        if self.options.topic is None:
            return {}
        topic = self.options.topic
        self._cluster.forget(topic)
        return {topic: describe_topic(self._cluster, topic, self.options.delivery_timeout_ms)}

    def _lane_count(self, topics: dict[str, TopicPlan]) -> int:
        partition_count = sum(topic.partition_count for topic in topics.values())
        return min(partition_count, self._parallelism) if topics else self._parallelism

    def _progress(
        self, query: QueryState, results: list[WriteResult]
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """The offsets at which the batch's marker is kept: of the sources and of the outputs."""
        # A written partition ends one later than its records do, behind the mark of the transaction's end.
        ends = {(each.topic, each.partition): each.end_offset + 1 for each in results}
        ends = {where: end for where, end in ends.items() if where not in query.source_offsets}
        places = output_places(self._committed, query.source_offsets)
        if self.options.topic is not None and not (ends or places or query.source_offsets):
            places[self.options.topic, 0] = 0
        asked = [*query.source_offsets, *(where for where in places if where not in ends)]
        here = {*self._cluster.existing(asked, self.options.delivery_timeout_ms), *ends}
        sources = {where: offset for where, offset in query.source_offsets.items() if where in here}
        places = {where: offset for where, offset in places.items() if where in here}
        return sources, output_offsets(ends, places, adopts=self._adopted)

    def _report(
        self, batch_id: int, query: QueryState, results: list[WriteResult], runs: int, *, skipped: bool
    ) -> BatchReport:
        assert self._transactions is not None
        assert self._transactions.identity is not None
        return BatchReport(
            batch_id,
            sum(each.records for each in results),
            sum(each.size_bytes for each in results),
            len(results),
            runs,
            skipped,
            *self._transactions.identity,
            self.options.transactional_id,
            query.query_id,
            query.run_id,
            self._retries,
            self._phases.durations_ms(),
        )


def check_results(results: list[WriteResult]) -> list[WriteResult]:
    """Raises Repeat or SinkError unless each partition was written by one task, to its end."""
    for result in results:
        if result.status == FAILED:
            raise SinkError(f"a task could not write: {result.detail}")
    for result in results:
        if result.status != WRITTEN:
            raise Repeat(result.detail)
    places = [(result.topic, result.partition) for result in results]
    if len(set(places)) < len(places):
        raise Repeat("two tasks wrote to one partition")
    return results


def prepare_session(spark: Any) -> None:
    if core_setting(spark, "spark.speculation").lower() == "true":
        raise SinkError(
            "spark.speculation is on: a speculative copy of a task would abort every batch. Switch it off for this job"
        )
    check_spark(spark)
    # Blocks are large rows: without a limit in bytes, thousands of them would be put into one Arrow batch. A small
    # one lets Spark convert the next while the last is on its way to the broker.
    spark.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", ARROW_BATCH_SIZE_BYTES)
