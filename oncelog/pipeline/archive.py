"""Spark's classes, loaded once and kept: a JVM that maps this archive starts in less than half of the CPU time.

Tests and the demonstration start Spark many times, and most of a start is the loading of some 15,000 classes. Java can
write them to a file at the exit of one process (`-XX:ArchiveClassesAtExit`) for others to map. A JVM that the archive
does not fit, because a jar or Java itself has changed, does without it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from oncelog.pipeline.jars import JarsMissing, cache_directory, connector_jars, installed_spark

FAST_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto -Xlog:disable -Xlog:all=error:stderr"
"""For JVMs that live for seconds: the second compiler would only cost them time."""

_MAKE_SECONDS_MAX = 600
_ROWS = 100


def fast_start() -> dict[str, str]:
    """Settings of a session whose JVMs start fast; makes the archive on first use, if there is a connector for it."""
    try:
        options = f"{FAST_START} -XX:SharedArchiveFile={class_archive()}"
    except JarsMissing:
        options = FAST_START
    return {"spark.driver.extraJavaOptions": options, "spark.executor.extraJavaOptions": options}


def class_archive() -> Path:
    """The archive for this Python environment and this Java; the path alone if it could not be made."""
    jars = connector_jars()
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    name = hashlib.sha256("\n".join([sys.prefix, java, *map(str, jars)]).encode()).hexdigest()[:16]
    path = cache_directory() / f"spark-{installed_spark()}-classes-{name}.jsa"
    if not path.exists():
        with path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                _make(path)
    return path


def _make(path: Path) -> None:
    """In a process of its own, because the archive is written when the JVM ends."""
    unfinished = path.with_suffix(".tmp")
    unfinished.unlink(missing_ok=True)
    command = [sys.executable, "-m", "oncelog.pipeline.archive", str(unfinished)]
    with tempfile.TemporaryFile() as log:
        subprocess.run(command, stdout=log, stderr=log, timeout=_MAKE_SECONDS_MAX, check=False)
    if unfinished.exists():
        os.replace(unfinished, path)


def _use_spark(archive: str) -> None:
    """A small job of the kind that the tests run: a stream from topic to topic through the sink, and a batch."""
    from oncelog.client.admin import Admin
    from oncelog.client.cluster import Cluster
    from oncelog.client.producer import Producer
    from oncelog.pipeline.session import spark_session
    from oncelog.testing import Broker

    options = f"{FAST_START} -XX:ArchiveClassesAtExit={archive}"
    spark = spark_session("oncelog classes", settings={"spark.driver.extraJavaOptions": options})
    try:
        with Broker() as broker, Cluster(broker.bootstrap_servers) as cluster, tempfile.TemporaryDirectory() as made:
            for topic in ("in", "out"):
                Admin(cluster).create_topic(topic, partitions=2)
            with Producer(cluster) as producer:
                for number in range(_ROWS):
                    producer.produce("in", b"%d" % number)
            _copy(spark, broker.bootstrap_servers, str(Path(made, "checkpoint")))
    finally:
        spark.stop()
        _end_jvm()


def _end_jvm() -> None:
    """The JVM writes the archive when its parent closes the pipe to it."""
    from oncelog.spark.internals import jvm_process

    process = jvm_process()
    process.stdin.close()
    process.wait()


def _copy(spark: Any, servers: str, checkpoint: str) -> None:
    from oncelog.spark import exactly_once_sink

    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", "in")
    rows = (
        reader.option("startingOffsets", "earliest").load().selectExpr("key", "upper(CAST(value AS STRING)) AS value")
    )
    sink = exactly_once_sink(servers, transactional_id="classes", topic="out")
    writer = rows.writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()
    batch = spark.read.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", "out").load()
    batch.select("key", "value").write.format("kafka").option("kafka.bootstrap.servers", servers).option(
        "topic", "in"
    ).save()


def main() -> None:
    """Without an argument, makes the archive ahead of its first use; a machine without Java does without it."""
    if len(sys.argv) > 1:
        _use_spark(sys.argv[1])
        return
    try:
        class_archive()
    except JarsMissing as error:
        print(error)


if __name__ == "__main__":
    main()
