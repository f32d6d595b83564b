"""What Spark knows about the running query and does not tell a foreachBatch function.

The query's id is a local property of the thread. The source's offsets are read from the query's own log of offsets,
through the JVM: those of Kafka for lag tools, and a digest of all, by which a batch is recognised.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from oncelog.client.cluster import TopicPartition
from oncelog.named_tuple import NamedTuple

QUERY_ID_PROPERTY = "sql.streaming.queryId"
DEFERRED_PROGRESS = (
    "Spark then notes a batch after it has run, and may give its number to other rows after a restart, so that the sink"
    " could not recognise a repeated batch"
)
"""Why asynchronous progress tracking is refused."""
_KAFKA_SOURCES = ("KafkaMicroBatchStream", "KafkaSource")


class QueryState(NamedTuple):
    query_id: str
    run_id: str
    """Changes with every start of the query; empty where the JVM does not tell it."""
    source_offsets: dict[TopicPartition, int]
    """Where each partition of each Kafka source ends in this batch."""
    plan: str = ""
    """A digest of what Spark noted about the batch before it ran; empty where it noted nothing."""


def read_query(spark: Any, batch_id: int) -> QueryState:
    query_id = spark.sparkContext.getLocalProperty(QUERY_ID_PROPERTY) or ""
    execution = _execution(spark, query_id)
    if execution is None:
        return QueryState(query_id, "", {})
    run_id, logged = execution.runId().toString(), execution.offsetLog().get(batch_id)
    if not logged.isDefined():
        return QueryState(query_id, run_id, {})
    return QueryState(query_id, run_id, _source_offsets(execution, logged.get()), _plan(logged.get()))


def is_running(spark: Any, query: QueryState) -> bool:
    execution = _execution(spark, query.query_id)
    return execution is not None and execution.runId().toString() == query.run_id and bool(execution.isActive())


def has_deferred_progress(spark: Any, query: QueryState) -> bool:
    """Whether the query runs with asynchronous progress tracking."""
    execution = _execution(spark, query.query_id)
    return execution is not None and "AsyncProgressTracking" in execution.getClass().getSimpleName()


def _execution(spark: Any, query_id: str) -> Any:
    """The JVM's object of the query; the session of a batch is a clone, so only the shared state knows it."""
    if not query_id:
        return None
    queries = spark._jsparkSession.sharedState().activeStreamingQueries()
    return queries.get(spark.sparkContext._jvm.java.util.UUID.fromString(query_id))


def _plan(entry: Any) -> str:
    """The offsets of all sources, and the time of planning: some sources count batches, and begin again as well."""
    offsets, metadata = entry.offsets(), entry.metadata()
    ends = [offsets.apply(index) for index in range(offsets.size())]
    noted: list[Any] = [end.get().json() if end.isDefined() else None for end in ends]
    if metadata.isDefined():
        noted.append(metadata.get().batchTimestampMs())
    return hashlib.sha256(json.dumps(noted).encode()).hexdigest()[:16]


def _source_offsets(execution: Any, entry: Any) -> dict[TopicPartition, int]:
    sources, offsets = execution.sources(), entry.offsets()
    found: dict[TopicPartition, int] = {}
    for index in range(min(sources.size(), offsets.size())):
        is_kafka = sources.apply(index).getClass().getSimpleName() in _KAFKA_SOURCES
        if is_kafka and offsets.apply(index).isDefined():
            found |= parse_kafka_offsets(offsets.apply(index).get().json())
    return found


def parse_kafka_offsets(text: str) -> dict[TopicPartition, int]:
    """`{"topic": {"0": 17}}`, as Spark's Kafka source writes it into the checkpoint."""
    return {
        (topic, int(partition)): int(offset)
        for topic, partitions in json.loads(text).items()
        for partition, offset in partitions.items()
    }
