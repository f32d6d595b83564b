"""Consume, transform, produce: topics in, topics out, exactly once.

Each batch prints one line. SIGTERM and SIGINT let the batch that is being written finish, and stop.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from typing import Any

from oncelog.pipeline.config import ConfigError, EtlConfig, with_prefix
from oncelog.pipeline.session import spark_session
from oncelog.pipeline.transform import apply_transform
from oncelog.spark import ExactlyOnceSink, SinkError, exactly_once_sink
from oncelog.spark.internals import INTERRUPTED, wait_for_interrupt

POLL_SECONDS = 0.2
STOP_SECONDS_MAX = 60.0


class Stopping(Exception):
    """Ends a query that would begin a batch although the job is to stop."""


class ReportingSink:
    """The sink with a line for each batch, and a lock that says when no batch is being written."""

    def __init__(self, sink: ExactlyOnceSink) -> None:
        self.sink = sink
        self.writing = threading.Lock()

    def __call__(self, rows: Any, batch_id: int) -> None:
        started = time.monotonic()
        # Only who stops the query holds the lock at this moment. To wait for it would be to wait for each other.
        if not self.writing.acquire(blocking=False):
            interrupted = wait_for_interrupt(rows.sparkSession, STOP_SECONDS_MAX)
            raise Stopping(INTERRUPTED if interrupted else "the job is being stopped")
        try:
            self.sink(rows, batch_id)
        finally:
            self.writing.release()
        report = self.sink.last_report
        assert report is not None
        what = "skipped: it was committed before" if report.skipped else f"{report.records} rows written"
        again = f", run {report.runs} times" if report.runs > 1 else ""
        say(
            f"batch {batch_id}: {what}{again}, transaction {self.sink.options.transactional_id}"
            f" (producer {report.producer_id}, epoch {report.epoch}), {time.monotonic() - started:.2f} s"
        )


def run_etl(config: EtlConfig) -> int:
    # What is wrong with the settings is told before Spark is started.
    sink = make_sink(config)
    spark = spark_session(f"oncelog etl {config.transactional_id}", master=config.master, settings=config.spark)
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    try:
        query = _start(spark, config, sink)
        say(f"started: query {query.id}, {', '.join(config.sources) or config.pattern} to {config.target or 'topics'}")
        return _follow(query, sink, stopping)
    finally:
        spark.stop()


def _start(spark: Any, config: EtlConfig, sink: ReportingSink | None) -> Any:
    """What Spark says against the query is about the settings; what happens later is not."""
    from pyspark.errors import PySparkException

    try:
        return start_query(spark, config, sink)
    except PySparkException as error:
        raise ConfigError(_reason(str(error))) from None


def make_sink(config: EtlConfig) -> ReportingSink | None:
    """None for Spark's own sink."""
    if config.sink == "spark":
        return None
    options = with_prefix(config.kafka) | config.sink_options
    try:
        sink = exactly_once_sink(
            config.bootstrap,
            transactional_id=config.transactional_id,
            topic=config.target,
            adopt=config.adopt,
            **options,
        )
    except SinkError as error:
        raise ConfigError(str(error)) from None
    return ReportingSink(sink)


def start_query(spark: Any, config: EtlConfig, sink: ReportingSink | None) -> Any:
    rows = apply_transform(_read(spark, config), config.sql, config.function)
    writer = rows.writeStream.option("checkpointLocation", config.checkpoint)
    if config.available_now:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{config.trigger_seconds} seconds")
    if sink is not None:
        return writer.foreachBatch(sink).start()
    writer = writer.format("kafka").option("kafka.bootstrap.servers", config.bootstrap)
    writer = writer.options(**with_prefix(config.kafka)).options(**config.sink_options)
    if config.target:
        writer = writer.option("topic", config.target)
    return writer.start()


def _read(spark: Any, config: EtlConfig) -> Any:
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", config.bootstrap)
    reader = reader.option("kafka.isolation.level", "read_committed").option("startingOffsets", config.starting)
    if config.pattern:
        reader = reader.option("subscribePattern", config.pattern)
    else:
        reader = reader.option("subscribe", ",".join(config.sources))
    if config.max_offsets is not None:
        reader = reader.option("maxOffsetsPerTrigger", config.max_offsets)
    if config.min_partitions is not None:
        reader = reader.option("minPartitions", config.min_partitions)
    return reader.options(**with_prefix(config.kafka)).options(**config.source_options).load()


def _follow(query: Any, sink: ReportingSink | None, stopping: threading.Event) -> int:
    """Prints progress until the query ends or a signal comes."""
    shown = -1
    while query.isActive and not stopping.wait(POLL_SECONDS):
        shown = _show_progress(query, shown)
    if stopping.is_set() and query.isActive:
        say("stopping after the batch that is being written")
        if sink is not None:
            sink.writing.acquire(timeout=STOP_SECONDS_MAX)
        query.stop()
    _show_progress(query, shown)
    failure = query.exception()
    if failure is not None and not (stopping.is_set() and Stopping.__name__ in str(failure)):
        print(f"etl: {_reason(str(failure))}", file=sys.stderr, flush=True)
        return 1
    say("stopped")
    return 0


def _show_progress(query: Any, shown: int) -> int:
    progress = query.lastProgress
    if progress is None or progress["batchId"] == shown:
        return shown
    progress = json.loads(progress.json) if hasattr(progress, "json") else progress
    rate = progress.get("processedRowsPerSecond") or 0.0
    say(
        f"batch {progress['batchId']}: {progress['numInputRows']} rows read, {rate:.0f} rows/s,"
        f" lag {_words(lag(progress['sources']))}"
    )
    return int(progress["batchId"])


def _words(behind: int | None) -> str:
    return "not known" if behind is None else str(behind)


def lag(sources: list[dict[str, Any]]) -> int | None:
    """How many offsets the Kafka sources are behind the ends of their topics.

    None: a source does not tell. A query that was started again runs the batch that it had planned before, and only
    then looks for the ends.
    """
    behind = 0
    for source in sources:
        ends, latest = (_offsets(source.get(name)) for name in ("endOffset", "latestOffset"))
        if ends is None or latest is None:
            return None
        for topic, partitions in latest.items():
            for partition, end in partitions.items():
                behind += max(0, int(end) - int(ends.get(topic, {}).get(partition, end)))
    return behind


def _offsets(given: Any) -> dict[str, dict[str, int]] | None:
    found = json.loads(given) if isinstance(given, str) else given
    return found if isinstance(found, dict) else None


def _reason(text: str) -> str:
    """The line that says what went wrong, out of Spark's pages."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if line.startswith("oncelog.")]
    return named[-1].partition(": ")[2] if named else (lines[0] if lines else "the query failed")


def say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)
