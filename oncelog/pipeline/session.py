"""The Spark session of all jobs: the connector's jars, this interpreter for the workers, and little noise."""

from __future__ import annotations

import os
import sys
from typing import Any

from oncelog.pipeline.jars import connector_jars

QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.python.worker.reuse": "true",
}


def spark_session(
    name: str, *, master: str | None = None, settings: dict[str, str] | None = None, needs_connector: bool = True
) -> Any:
    """Under spark-submit, what it was given (its master, its jars) stands."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    builder = SparkSession.builder.appName(name)
    if not submitted:
        jars = [str(jar) for jar in connector_jars()] if needs_connector else []
        for key, value in _own_settings(master or "local[2]", jars).items():
            builder = builder.config(key, value)
    for key, value in (settings or {}).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _own_settings(master: str, jars: list[str]) -> dict[str, str]:
    if not master.startswith("local"):
        return QUIET | {"spark.master": master, "spark.jars": ",".join(jars)}
    # All of it is on this machine: nobody has to fetch the jars from the driver, and nobody else has to reach it.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    path = os.pathsep.join(jars)
    here = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    paths = {"spark.driver.extraClassPath": path, "spark.executor.extraClassPath": path}
    return QUIET | here | paths | {"spark.master": master}
