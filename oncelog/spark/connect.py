"""The state of a query over Spark Connect, where the JVM is out of reach.

A foreachBatch function then runs in a process of its own beside the server, as a client of it. All that the sink needs
to know of its query is in the checkpoint, which the session can read:

    metadata      {"id": "6653a371-…"}
    offsets/17    v1
                  {"batchTimestampMs": …, …}
                  {"orders": {"0": 17}}        one line for each source, "-" where it has no offset
"""

from __future__ import annotations

import json
import uuid
from typing import Any

from oncelog.spark.errors import SinkError
from oncelog.spark.internals import PlannedBatch

RUN_ID = f"connect-{uuid.uuid4()}"
"""The process serves one run of one query."""

UNKNOWN = "unknown"
KAFKA = "KafkaSource"


def remote_query_id(spark: Any, checkpoint: str | None) -> str:
    if not checkpoint:
        raise SinkError(
            "over Spark Connect the sink cannot ask Spark which query runs: give it the location of the checkpoint, as"
            " exactly_once_sink(..., checkpoint=...), with the same value as the option checkpointLocation"
        )
    query_id = str(json.loads(_read(spark, f"{checkpoint}/metadata"))["id"])
    if query_id not in [query.id for query in spark.streams.active]:
        raise SinkError(
            f"the checkpoint {checkpoint!r} belongs to query {query_id}, which does not run in this session"
        )
    return query_id


def read_planned(spark: Any, checkpoint: str, batch_id: int) -> PlannedBatch:
    lines = _read(spark, f"{checkpoint}/offsets/{batch_id}").splitlines()
    if lines[0] != "v1":
        raise SinkError(f"the log of offsets in {checkpoint!r} has format {lines[0]!r}; the sink knows v1")
    ends = [None if line == "-" else line for line in lines[2:]]
    timestamp_ms = json.loads(lines[1]).get("batchTimestampMs") if lines[1] else None
    return PlannedBatch(ends, [KAFKA if _is_kafka(end) else UNKNOWN for end in ends], timestamp_ms)


def _read(spark: Any, path: str) -> str:
    from pyspark.errors import AnalysisException

    try:
        (row,) = spark.read.text(path, wholetext=True).collect()
    except AnalysisException as error:
        reason = str(error).splitlines()[0]
        raise SinkError(f"{path} cannot be read; is `checkpoint` the query's checkpointLocation? ({reason})") from None
    return str(row["value"])


def _is_kafka(end: str | None) -> bool:
    """Offsets of Kafka look like those of no other source: {"topic": {"0": 17}}."""
    try:
        topics = json.loads(end or "null")
    except ValueError:
        return False
    return (
        isinstance(topics, dict)
        and all(isinstance(partitions, dict) for partitions in topics.values())
        and all(name.isdecimal() for partitions in topics.values() for name in partitions)
    )
