"""The sink and the data source over Spark Connect."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from oncelog.client.cluster import Cluster
from oncelog.client.consumer import Consumer
from oncelog.client.producer import Producer
from oncelog.pipeline import jars
from oncelog.spark.cluster import SinkCluster
from oncelog.spark.connect import _is_kafka
from oncelog.spark.options import SinkOptions
from oncelog.spark.transaction import Transactions

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

ROOT = Path(__file__).parents[2]


def values(servers: str, topic: str) -> list[int]:
    with Cluster(servers) as cluster:
        return sorted(int(each.record.value or b"") for each in Consumer(cluster, topic).records(follow=False))


@pytest.mark.skipif("ONCELOG_SPARK_LONG" not in os.environ, reason="takes a minute; `make test-spark` runs it")
def test_over_spark_connect(oncelog_servers: str, new_topic: Callable[..., str], tmp_path: Path) -> None:
    for needed in ("grpc", "grpc_status", "zstandard"):
        pytest.importorskip(needed, reason="needs the extra `pipeline`: pip install 'oncelog[pipeline]'")
    if (reason := jars.missing()) is not None:
        pytest.skip(reason)
    source, target, other = new_topic(oncelog_servers, 2), new_topic(oncelog_servers, 3), new_topic(oncelog_servers, 1)
    with Cluster(oncelog_servers) as cluster, Producer(cluster) as producer:
        for number in range(100):
            producer.produce(source, b"%d" % number, partition=number % 2)
    command = [sys.executable, "-m", "tests.spark.connect_job", oncelog_servers, source, target, other, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=390, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"step"')]
    errors = {line["step"]: line["error"] for line in lines}
    assert done.returncode == 0, done.stderr[-3000:]

    fine = {name: errors.pop(name) for name in ("sink", "repeated", "batch job", "stream")}
    assert set(fine.values()) == {""}, fine
    assert values(oncelog_servers, target) == list(range(100))
    assert values(oncelog_servers, other) == sorted([*range(20), *range(100)])
    # The offsets of the source are in the transaction, as they are without Connect.
    with SinkCluster.open(SinkOptions(oncelog_servers, "connect", group_id="connect")) as cluster:
        committed = Transactions(cluster, SinkOptions(oncelog_servers, "connect", group_id="connect")).committed()
    assert {where: each.offset for where, each in committed.items() if where[0] == source} == {
        (source, 0): 50,
        (source, 1): 50,
    }

    assert "SinkError: over Spark Connect the sink cannot ask Spark which query runs" in errors.pop(
        "without checkpoint"
    )
    assert "which does not run in this session" in errors.pop("other checkpoint")
    assert "there is no topic 'no-such-topic'" in errors.pop("bad row")
    assert "continuous_checkpoint_interval is not supported" in errors.pop("continuous")
    assert not errors


@pytest.mark.parametrize(
    ("end", "expected"),
    [('{"orders":{"0":17,"1":3}}', True), ('{"offset":6,"timestamp":1000}', False), ("7", False), (None, False)],
)
def test_offsets_of_kafka_are_known_by_their_shape(end: str | None, expected: bool) -> None:
    assert _is_kafka(end) is expected
