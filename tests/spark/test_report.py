"""What a batch took is shown where people who run Spark look: in the progress of the query, and to a listener."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from oncelog.spark import BatchReport, exactly_once_sink, report_listener

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(300),
    # PySpark leaves the sockets of its results to the collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

PHASES = {"fence", "encode", "write", "commit"}


def test_a_batch_in_the_progress_and_at_a_listener(
    spark: Any, oncelog_servers: str, new_topic: Callable[..., str], checkpoint: str
) -> None:
    name = f"report-{uuid.uuid4().hex[:8]}"
    sink = exactly_once_sink(oncelog_servers, transactional_id=name, topic=new_topic(oncelog_servers, 2))
    heard: list[tuple[Any, BatchReport]] = []
    called = threading.Event()

    def action(progress: Any, report: BatchReport) -> None:
        heard.append((progress, report))
        called.set()

    listener = report_listener(sink, action)
    spark.streams.addListener(listener)
    try:
        rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 7).load()
        writer = rows.selectExpr("CAST(value AS STRING) AS value").writeStream.foreachBatch(sink)
        query = writer.option("checkpointLocation", checkpoint).trigger(once=True).start()
        assert query.awaitTermination(100)
        assert called.wait(60)
    finally:
        spark.streams.removeListener(listener)
    report = sink.last_report
    assert report is not None
    assert (report.transactional_id, report.query_id, report.run_id) == (name, query.id, query.runId)
    assert (report.records, report.aborts, report.retries, report.skipped) == (7, 0, 0, False)
    assert report.durations_ms.keys() == PHASES
    (found,) = heard
    assert found[1] == report
    durations = query.lastProgress["durationMs"]
    assert {phase: durations[f"oncelog.{phase}"] for phase in PHASES} == report.durations_ms
    assert durations["oncelog.write"] <= durations["triggerExecution"]
