"""What Spark knows about the running query and does not tell a foreachBatch function.

The source's offsets are read from the query's own log of offsets: those of Kafka for lag tools, and a digest of all,
by which a batch is recognised.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from oncelog.client.cluster import TopicPartition
from oncelog.named_tuple import NamedTuple
from oncelog.spark.connect import RUN_ID, read_planned, remote_query_id
from oncelog.spark.errors import SinkError
from oncelog.spark.internals import PlannedBatch, current_query_id, find_query, is_remote

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


def read_query(spark: Any, batch_id: int, checkpoint: str | None = None) -> QueryState:
    """`checkpoint` is needed over Spark Connect only."""
    if is_remote(spark):
        query_id = remote_query_id(spark, checkpoint)
        planned = read_planned(spark, str(checkpoint), batch_id)
        return QueryState(query_id, RUN_ID, _kafka_offsets(planned), _digest(planned))
    return _read_local_query(spark, batch_id)


def _read_local_query(spark: Any, batch_id: int) -> QueryState:
    query_id = current_query_id(spark)
    query = find_query(spark, query_id)
    if query is None:
        return QueryState(query_id, "", {})
    planned = query.planned(batch_id)
    if planned is None:
        return QueryState(query_id, query.run_id, {})
    return QueryState(query_id, query.run_id, _kafka_offsets(planned), _digest(planned))


def is_running(spark: Any, state: QueryState) -> bool:
    if is_remote(spark):
        # Every run has a process of its own.
        return False
    query = find_query(spark, state.query_id)
    return query is not None and query.run_id == state.run_id and query.is_active


def check_query(spark: Any, state: QueryState) -> None:
    """SinkError if the query runs in a way in which the sink could not recognise a repeated batch."""
    query = None if is_remote(spark) else find_query(spark, state.query_id)
    if query is None:
        return
    if query.tracks_progress_late:
        raise SinkError(f"the query has asyncProgressTrackingEnabled: {DEFERRED_PROGRESS}")
    if query.has_temporary_checkpoint:
        raise SinkError(
            "the query has no checkpointLocation: Spark deletes its temporary checkpoint when the query stops, and no"
            " repeated batch could be recognised after that. Set option('checkpointLocation', ...)"
        )


def has_state(spark: Any, state: QueryState) -> bool:
    if is_remote(spark):
        # It may have; this cannot be asked.
        return True
    query = find_query(spark, state.query_id)
    return query is not None and query.has_state


def check_planned(state: QueryState, batch_id: int) -> None:
    """SinkError for a batch that Spark runs before it notes what is in it, as real-time mode does."""
    if state.run_id and not state.plan:
        raise SinkError(
            f"Spark has not noted in the checkpoint what is in batch {batch_id}, so that the batch could not be"
            " recognised when it is repeated. Use trigger(processingTime=...) or trigger(availableNow=True)"
        )


def _digest(planned: PlannedBatch) -> str:
    """Of where all sources end, and of the time of planning: some sources count batches, and begin again as well."""
    noted: list[str | int | None] = [*planned.ends]
    if planned.timestamp_ms is not None:
        noted.append(planned.timestamp_ms)
    return hashlib.sha256(json.dumps(noted).encode()).hexdigest()[:16]


def _kafka_offsets(planned: PlannedBatch) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for kind, end in zip(planned.kinds, planned.ends, strict=False):
        if kind in _KAFKA_SOURCES and end is not None:
            found |= parse_kafka_offsets(end)
    return found


def parse_kafka_offsets(text: str) -> dict[TopicPartition, int]:
    """`{"topic": {"0": 17}}`, as Spark's Kafka source writes it into the checkpoint."""
    return {
        (topic, int(partition)): int(offset)
        for topic, partitions in json.loads(text).items()
        for partition, offset in partitions.items()
    }
