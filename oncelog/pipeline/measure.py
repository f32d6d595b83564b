"""Rows per second of the exactly-once sink beside Spark's own sink: the same job, in one run, batch by batch.

The job copies a topic. The two sinks take turns, in changing order; the first turn, in which the JVM warms up, and the
first batch of each turn, in which the query starts, are left out. A batch's time is what Spark reports as the time of
its trigger. Beside it stands the processor time of a whole turn, of Spark, its Python workers and the broker together,
which says more than the clock does on a machine that has other work.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from oncelog.client.admin import Admin
from oncelog.client.cluster import Cluster
from oncelog.client.producer import Producer
from oncelog.pipeline.chaos import own_broker
from oncelog.pipeline.session import spark_session
from oncelog.spark import exactly_once_sink

SINKS = ("exactly-once", "spark")
INPUT = "measure-in"
INPUT_PARTITIONS = 2


class Speed(NamedTuple):
    sink: str
    partitions: int
    rows_per_second: float
    """Of one batch."""
    cpu_seconds: float
    """For a million rows, of the batch's turn."""


def run_measure(flags: argparse.Namespace) -> int:
    if flags.bootstrap:
        speeds = measure(flags.bootstrap, flags)
    else:
        with own_broker(flags.broker, fsync=flags.fsync) as broker:
            speeds = measure(broker.bootstrap_servers, flags)
    print(table(speeds))
    return 0


def table(speeds: list[Speed]) -> str:
    lines = [
        "| output partitions | exactly-once sink, rows/s | Spark's sink, rows/s | ratio |"
        " CPU seconds per million rows | Spark's sink |",
        "|---|---|---|---|---|---|",
    ]
    for partitions in sorted({speed.partitions for speed in speeds}):
        found = [[each for each in speeds if (each.sink, each.partitions) == (sink, partitions)] for sink in SINKS]
        ours, theirs = (median(each.rows_per_second for each in some) for some in found)
        our_cpu, their_cpu = (median(each.cpu_seconds for each in some) for some in found)
        lines.append(
            f"| {partitions} | {ours:,.0f} | {theirs:,.0f} | {ours / theirs:.2f} | {our_cpu:.1f} | {their_cpu:.1f} |"
        )
    return "\n".join(lines)


def measure(bootstrap: str, flags: argparse.Namespace) -> list[Speed]:
    rows, batches = flags.rows, flags.batches
    with Cluster(bootstrap) as cluster:
        _fill(cluster, rows * batches, flags.value_size)
        for partitions in flags.partitions:
            for sink in SINKS:
                Admin(cluster).create_topic(f"measure-{sink}-{partitions}", partitions=partitions)
    spark = spark_session("oncelog measure", master=flags.master)
    speeds: list[Speed] = []
    try:
        for turn in range(flags.turns + 1):
            for partitions in flags.partitions:
                for sink in SINKS if turn % 2 else reversed(SINKS):
                    before = _cpu_seconds()
                    found = _turn(spark, bootstrap, sink, partitions, rows, f"{turn}")
                    cpu = (_cpu_seconds() - before) / (rows * batches) * 1_000_000
                    print(
                        f"turn {turn}, {partitions} partitions, {sink}: {[round(each) for each in found]} rows/s,"
                        f" {cpu:.1f} CPU seconds per million",
                        flush=True,
                    )
                    if turn:
                        speeds += [Speed(sink, partitions, each, cpu) for each in found]
    finally:
        spark.stop()
    return speeds


def _cpu_seconds() -> float:
    """Of this process and all that it has started."""
    import psutil

    own = psutil.Process()
    total = 0.0
    for process in [own, *own.children(recursive=True)]:
        # A Python worker may end between the look at the list and the look at the process.
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def _fill(cluster: Cluster, count: int, value_size_bytes: int) -> None:
    Admin(cluster).create_topic(INPUT, partitions=INPUT_PARTITIONS)
    with Producer(cluster) as producer:
        for number in range(count):
            value = b"%0*d" % (value_size_bytes, number)
            producer.produce(INPUT, value, key=b"key-%d" % (number % 1000), partition=number % INPUT_PARTITIONS)


def _turn(spark: Any, bootstrap: str, sink: str, partitions: int, rows: int, name: str) -> list[float]:
    target = f"measure-{sink}-{partitions}"
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", INPUT)
    reader = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", rows)
    with tempfile.TemporaryDirectory() as directory:
        writer = reader.load().select("key", "value").writeStream.trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(Path(directory, "checkpoint")))
        if sink == "spark":
            writer = writer.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("topic", target)
        else:
            identity = f"measure-{partitions}-{name}"
            writer = writer.foreachBatch(exactly_once_sink(bootstrap, transactional_id=identity, topic=target))
        query = writer.start()
        query.awaitTermination()
        progress = [each for each in query.recentProgress if each["numInputRows"] >= rows // 2]
    return [each["numInputRows"] / (each["durationMs"]["triggerExecution"] / 1000) for each in progress[1:]]
