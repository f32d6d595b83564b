"""A client of Spark Connect with a server of its own; test_connect.py runs it. Prints one line of JSON for each step.

A process cannot have a session of Spark Connect beside a classic one, so this is no part of the tests' own process.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from oncelog.pipeline.jars import connector_jars
from oncelog.pipeline.session import _own_settings

# As clients import it: before there is a session.
from oncelog.spark.datasource import OncelogDataSource


def session() -> Any:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    # With this, PySpark's local server takes a port that the system chose.
    os.environ["SPARK_TESTING"] = "1"
    builder = SparkSession.builder.remote("local[2]")
    settings = _own_settings("local[2]", [str(jar) for jar in connector_jars()])
    for name, value in settings.items():
        if name != "spark.master":
            builder = builder.config(name, value)
    return builder.getOrCreate()


def step(name: str, action: Callable[[], None]) -> None:
    error = ""
    try:
        action()
    except Exception:
        error = traceback.format_exc()
    print(json.dumps({"step": name, "error": error}), flush=True)


def main(servers: str, source: str, target: str, other: str, directory: str) -> None:
    spark = session()
    from oncelog.spark import exactly_once_sink

    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", source)
    rows = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 60).load().select("value")
    checkpoint = str(Path(directory, "checkpoint"))

    def run(sink: Any, location: str) -> None:
        query = rows.writeStream.foreachBatch(sink).option("checkpointLocation", location).trigger(availableNow=True)
        query.start().awaitTermination(120)

    def named(location: str | None) -> Any:
        return exactly_once_sink(servers, transactional_id="connect", topic=target, checkpoint=location)

    step("without checkpoint", lambda: run(named(None), str(Path(directory, "nameless"))))
    step("sink", lambda: run(named(checkpoint), checkpoint))
    # As if the driver had died between the transaction's commit and Spark's own note of it.
    for name in ("1", ".1.crc"):
        Path(checkpoint, "commits", name).unlink(missing_ok=True)
    step("repeated", lambda: run(named(checkpoint), checkpoint))
    step("other checkpoint", lambda: run(named(checkpoint), str(Path(directory, "second"))))
    step(
        "bad row",
        lambda: run(
            exactly_once_sink(
                servers, transactional_id="bad", topic="no-such-topic", checkpoint=str(Path(directory, "bad"))
            ),
            str(Path(directory, "bad")),
        ),
    )

    spark.dataSource.register(OncelogDataSource)
    settings = {"bootstrap": servers, "transactional_id": "connect-job", "topic": other}
    batch = spark.range(20).selectExpr("CAST(id AS STRING) AS value")
    step("batch job", lambda: batch.write.format("oncelog").options(**settings).mode("append").save())
    settings |= {"transactional_id": "connect-stream", "checkpointLocation": str(Path(directory, "stream"))}
    writer = rows.writeStream.format("oncelog").options(**settings)
    step("stream", lambda: writer.trigger(availableNow=True).start().awaitTermination(120))
    settings |= {"transactional_id": "continuous", "checkpointLocation": str(Path(directory, "continuous"))}
    ticking = spark.readStream.format("rate").load().selectExpr("CAST(value AS STRING) AS value").writeStream
    ticking = ticking.format("oncelog").options(**settings).trigger(continuous="1 second")
    step("continuous", lambda: ticking.start().stop())
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
