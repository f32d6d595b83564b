"""A Spark session for all tests here, and both brokers. Without PySpark, everything here is skipped."""

from __future__ import annotations

import gc
import os
import sys
import uuid
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra `pipeline`: pip install 'oncelog[pipeline]'")
pytest.importorskip("pyarrow", reason="needs the extra `pipeline`: pip install 'oncelog[pipeline]'")

from conformance.reference import jars as reference_jars
from conformance.reference.kafka import ApacheKafka
from oncelog.client.admin import Admin
from oncelog.client.cluster import Cluster
from oncelog.pipeline import jars
from oncelog.testing import Broker

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    if (reason := jars.missing()) is not None:
        pytest.skip(reason)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from oncelog.pipeline.archive import fast_start
    from oncelog.pipeline.session import spark_session

    settings = fast_start() | {"spark.sql.streaming.stopTimeout": "60s"}
    session = spark_session("oncelog tests", settings=settings, needs_connector=_connector_problem() is None)
    yield session
    session.stop()
    _forget_gateway()


@cache
def _connector_problem() -> str | None:
    try:
        jars.connector_jars()
    except jars.JarsMissing as error:
        return str(error)
    return None


@pytest.fixture
def connector() -> None:
    """For tests that read from Kafka: not every Spark has its connector in Maven."""
    if (problem := _connector_problem()) is not None:
        pytest.skip(problem)


def _forget_gateway() -> None:
    """PySpark leaves its sockets to the collector, which complains about them; here nobody listens."""
    from pyspark import SparkContext

    gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gateway.shutdown()
        del gateway
        gc.collect()


@pytest.fixture(scope="session")
def oncelog_servers() -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap_servers


@pytest.fixture(scope="session")
def apache_servers() -> Iterator[str]:
    if (reason := reference_jars.missing()) is not None:
        pytest.skip(reason)
    with ApacheKafka() as kafka:
        yield kafka.bootstrap_servers


@pytest.fixture(params=os.environ.get("ONCELOG_PIPELINE_BROKERS", "oncelog").split(","))
def servers(request: pytest.FixtureRequest) -> str:
    """Each broker in turn; `make test` takes Oncelog alone, `make pipeline-soak` both."""
    found: str = request.getfixturevalue(f"{request.param}_servers")
    return found


@pytest.fixture
def new_topic(request: pytest.FixtureRequest) -> Callable[..., str]:
    """Makes a topic with a name of its own on the given broker."""

    def make(servers: str, partitions: int = 1, **configs: str) -> str:
        name = f"{request.node.name[:40].replace('[', '-').replace(']', '')}-{uuid.uuid4().hex[:8]}"
        with Cluster(servers) as cluster:
            settings = {key.replace("_", "."): value for key, value in configs.items()}
            Admin(cluster).create_topic(name, partitions=partitions, configs=settings)
        return name

    return make


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")
