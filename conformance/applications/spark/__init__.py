"""Spark's stock Kafka connector: batches, and streams that take what is there and stop."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as package_version
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.client import ClientError
from conformance.preparation import create_topic
from oncelog.pipeline.jars import missing as missing_jars

if TYPE_CHECKING:
    from conformance.client import Json
    from conformance.scenarios.run import Run

REPOSITORY_ROOT = Path(__file__).parents[3]
JOB_TIMEOUT_S = 400


def version() -> str:
    try:
        return package_version("pyspark")
    except PackageNotFoundError:
        return ""


def missing() -> str | None:
    if not version():
        return "PySpark is not installed: pip install '.[spark]'"
    return missing_jars()


def batch_and_stream(run: Run) -> Json:
    """Writes and reads batches with keys, headers and bounds; copies by a stream that is stopped and continued."""
    topics = [run.topic(label) for label in ("rows", "copies")]
    for topic in topics:
        create_topic(run.address, topic, partitions=2, configs={"retention.ms": "-1"})
    with tempfile.TemporaryDirectory(prefix="spark-") as directory:
        job = [sys.executable, "-m", "conformance.applications.spark.job", run.address, *topics, directory]
        done = subprocess.run(
            job, cwd=REPOSITORY_ROOT, capture_output=True, text=True, timeout=JOB_TIMEOUT_S, check=False
        )
    if done.returncode != 0:
        raise ClientError(f"exit code {done.returncode}: {done.stderr[-2000:]}")
    seen: Json = json.loads(done.stdout.splitlines()[-1])
    return seen
