"""The Spark session of all jobs: the connector's jars, this interpreter for the workers, and little noise."""

from __future__ import annotations

import os
import sys
from typing import Any

from pipeline.jars import connector_jars

QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.python.worker.reuse": "true",
}


def spark_session(name: str, *, master: str | None = None, settings: dict[str, str] | None = None) -> Any:
    """Under spark-submit, what it was given (its master, its jars) stands."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    builder = SparkSession.builder.appName(name)
    if not submitted:
        builder = builder.master(master or "local[2]")
        builder = builder.config("spark.jars", ",".join(str(jar) for jar in connector_jars()))
        for key, value in QUIET.items():
            builder = builder.config(key, value)
    for key, value in (settings or {}).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark
