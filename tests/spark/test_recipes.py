"""The recipes in docs/recipes run as they stand there."""

from __future__ import annotations

import importlib.util
import os
import shutil
import struct
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from oncelog.client.cluster import Cluster
from oncelog.client.consumer import Consumer
from oncelog.spark import exactly_once_sink

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(300),
    # PySpark leaves the sockets of its results to the collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

RECIPES = Path(__file__).parents[2] / "docs" / "recipes"
NewTopic = Callable[..., str]


def recipe(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, RECIPES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def values(servers: str, topic: str) -> list[bytes]:
    with Cluster(servers) as cluster:
        return sorted(each.record.value or b"" for each in Consumer(cluster, topic).records(follow=False))


@pytest.fixture
def database(tmp_path: Path) -> Iterator[str]:
    """PostgreSQL on a socket in a directory of its own, without TCP."""
    pytest.importorskip("psycopg", reason="needs the extra `pipeline`: pip install 'oncelog[pipeline]'")
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    initdb = str(found[-1]) if found else shutil.which("initdb")
    if initdb is None:
        pytest.skip("needs PostgreSQL: apt-get install postgresql")
    directory = Path("/tmp") / f"oncelog-postgres-{uuid.uuid4().hex[:8]}"
    directory.mkdir(mode=0o777)
    directory.chmod(0o777)
    # PostgreSQL does not run as root.
    as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []
    data, server = directory / "data", Path(initdb).with_name("pg_ctl")
    subprocess.run([*as_user, initdb, "-D", data, "-U", "postgres", "-A", "trust"], check=True, capture_output=True)
    options = f"-c listen_addresses='' -c unix_socket_directories={directory}"
    start = [*as_user, server, "-D", data, "-w", "-l", directory / "log", "-o", options, "start"]
    subprocess.run(start, check=True, capture_output=True)
    try:
        yield f"host={directory} user=postgres dbname=postgres"
    finally:
        subprocess.run([*as_user, server, "-D", data, "-m", "immediate", "stop"], check=True, capture_output=True)
        shutil.rmtree(directory)


def test_kafka_and_postgres(
    spark: Any,
    oncelog_servers: str,
    new_topic: NewTopic,
    checkpoint: str,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import psycopg

    module, topic = recipe("kafka_and_postgres"), new_topic(oncelog_servers, 2)
    sink = exactly_once_sink(oncelog_servers, transactional_id=f"postgres-{topic}", topic=topic)
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    orders = rows.selectExpr("CAST(value AS STRING) AS id", "value AS amount").writeStream
    orders = orders.option("checkpointLocation", checkpoint).trigger(once=True)
    write = module.kafka_and_postgres(sink, database)

    def die(*_: object) -> None:
        raise ZeroDivisionError

    # It dies between the two transactions; the batch is repeated, and Kafka has it already.
    with monkeypatch.context() as patch:
        patch.setattr(module, "write_postgres", die)
        with pytest.raises(Exception, match="ZeroDivisionError"):
            orders.foreachBatch(write).start().awaitTermination(100)
    for batch in range(2):
        assert orders.foreachBatch(write).start().awaitTermination(100)
        # It dies after both, and before Spark's note of it: both have it already.
        Path(checkpoint, "commits", str(batch)).unlink()
        Path(checkpoint, "commits", f".{batch}.crc").unlink(missing_ok=True)
        assert orders.foreachBatch(write).start().awaitTermination(100)
        assert sink.last_report is not None
        assert sink.last_report.skipped
    assert len(values(oncelog_servers, topic)) == 20
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT count(*), sum(amount) FROM orders").fetchone() == (20, sum(range(20)))
        assert connection.execute("SELECT count(*) FROM batches").fetchone() == (2,)


def test_two_topics(spark: Any, oncelog_servers: str) -> None:
    from oncelog.client.admin import Admin

    with Cluster(oncelog_servers) as cluster:
        for topic in ("orders-clean", "order-alerts"):
            Admin(cluster).create_topic(topic, partitions=2)
    rows = spark.createDataFrame([("a", "me", 5), ("b", "you", 5000)], "id string, customer string, amount bigint")
    sink = exactly_once_sink(oncelog_servers, transactional_id=f"two-{uuid.uuid4().hex[:8]}")
    sink(recipe("two_topics").orders_and_alerts(rows), 0)
    assert values(oncelog_servers, "orders-clean") == [b'{"id":"a","amount":5}', b'{"id":"b","amount":5000}']
    assert values(oncelog_servers, "order-alerts") == [b"order b is over 1000"]


def test_the_frame_of_a_registrys_values(spark: Any) -> None:
    """The encoding itself is Spark's."""
    from pyspark.sql.functions import lit

    module = recipe("registry")
    (row,) = (
        spark.range(1)
        .select(
            module.framed(lit(bytearray(b"avro")), 258).alias("avro"),
            module.framed(lit(bytearray(b"proto")), 7, module.FIRST_MESSAGE).alias("protobuf"),
        )
        .collect()
    )
    assert bytes(row["avro"]) == b"\x00" + struct.pack(">I", 258) + b"avro"
    assert bytes(row["protobuf"]) == b"\x00\x00\x00\x00\x07\x00proto"
