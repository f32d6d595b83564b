"""Exactly-once under SIGKILL of driver, executor and broker; and Spark's own sink, so that the test can fail.

`ONCELOG_PIPELINE_RUNS` says how many runs each broker gets (default 1; `make pipeline-soak` takes 30),
`ONCELOG_PIPELINE_BROKERS` which brokers (default `oncelog`, or `oncelog,apache`), and `ONCELOG_PIPELINE_SEED` where the
random numbers begin.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from conformance.reference import jars as reference_jars
from conformance.reference.kafka import ApacheKafka
from oncelog.client.admin import Admin
from oncelog.client.cluster import Cluster
from oncelog.client.offsets import Isolation
from oncelog.client.producer import Producer
from oncelog.testing import Broker
from pipeline import jars
from pipeline.archive import fast_start
from pipeline.chaos import MOMENT_SECONDS_MAX, EtlProcess, Kill, moment_of_writing, random_moment, run_with_kills
from pipeline.evidence import (
    CommittedReader,
    Seen,
    Verdict,
    aborted_offsets,
    batches_of_checkpoint,
    count_end,
    judge,
    read_topic,
    torn_batches,
)

pytest.importorskip("psutil", reason="needs the extra `pipeline`")
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1200)]

RUNS = int(os.environ.get("ONCELOG_PIPELINE_RUNS", "1"))
SEED = int(os.environ.get("ONCELOG_PIPELINE_SEED", "1"))
RECORDS = 5_000
BATCHES = 5
CLUSTER = "local-cluster[2,1,1024]"
SQL = str(Path(__file__).parents[2] / "pipeline" / "sql" / "trace.sql")


@pytest.fixture(params=os.environ.get("ONCELOG_PIPELINE_BROKERS", "oncelog").split(","))
def broker(request: pytest.FixtureRequest) -> Iterator[Any]:
    reason = jars.missing() or reference_jars.missing()
    if reason is not None:
        pytest.skip(reason)
    with Broker(subprocess=True) if request.param == "oncelog" else ApacheKafka() as running:
        yield running


class Outcome(NamedTuple):
    verdict: Verdict
    torn: list[int]
    gone: list[Seen]
    """What the reader beside the job was given, and is not there at the end, or was given twice."""
    kills: list[Kill]
    log: str


def fill(servers: str, records: int = RECORDS) -> None:
    with Cluster(servers) as cluster:
        Admin(cluster).create_topic("in", partitions=2)
        Admin(cluster).create_topic("out", partitions=3)
        with Producer(cluster) as producer:
            for number in range(records):
                producer.produce("in", b"%d" % number, key=b"key-%d" % (number % 97))


def etl_process(servers: str, directory: Path, sink: str, *more: str) -> EtlProcess:
    arguments = ["--bootstrap", servers, "--from", "in", "--to", "out", "--sink", sink, "--sql", SQL]
    arguments += ["--transactional-id", "etl", "--checkpoint", str(directory / "checkpoint")]
    arguments += ["--max-offsets", str(RECORDS // BATCHES), *more]
    for key, value in fast_start().items():
        arguments += ["--spark", f"{key}={value}"]
    return EtlProcess(arguments, directory / "etl.log")


def run(
    broker: Any, directory: Path, sink: str, kills: list[str], seed: int, master: str, moment: float | None
) -> Outcome:
    """A kill comes up to `moment` seconds after the output has grown; None: while a batch is being written."""
    servers = broker.bootstrap_servers
    fill(servers)
    etl = etl_process(servers, directory, sink, "--master", master, "--available-now")
    reader = CommittedReader(servers, "out")
    reader.start()
    said: list[str] = []
    chooser = random.Random(seed)
    await_moment = moment_of_writing(etl, servers, "out", sink) if moment is None else random_moment(chooser, moment)
    try:
        done = run_with_kills(
            etl,
            broker,
            kills,
            RECORDS // BATCHES,
            lambda: count_end(servers, "out"),
            chooser,
            said.append,
            await_moment,
        )
    finally:
        etl.close()
        reader.stop()
    committed = read_topic(servers, "out", Isolation.READ_COMMITTED)
    expected = [f"{each.partition}:{each.offset}" for each in read_topic(servers, "in", Isolation.READ_COMMITTED)]
    verdict = judge(expected, committed, [each.value.decode() for each in committed], aborted_offsets(servers, "out"))
    torn = torn_batches(committed, reader.stops, "in", batches_of_checkpoint(directory / "checkpoint"))
    gone = Counter(reader.seen) - Counter(committed)
    return Outcome(verdict, torn, sorted(gone), done, "\n".join(said) + etl.log())


@pytest.mark.parametrize("number", range(RUNS))
def test_each_record_arrives_once_whatever_dies(broker: Any, tmp_path: Path, number: int) -> None:
    seed = SEED + number
    kills = ["driver", "executor", "broker"]
    random.Random(seed).shuffle(kills)
    # Every other run is killed while a batch is being written, the rest at any moment.
    moment = MOMENT_SECONDS_MAX if number % 2 else None
    outcome = run(broker, tmp_path, "exactly-once", kills, seed, CLUSTER, moment)
    assert outcome.verdict.exactly_once, f"seed {seed}: {outcome.verdict}\n{outcome.log}"
    assert outcome.verdict.expected == RECORDS
    assert outcome.verdict.out_of_order == 0
    assert outcome.torn == [], f"seed {seed}\n{outcome.log}"
    assert outcome.gone == [], f"seed {seed}\n{outcome.log}"
    assert outcome.kills, outcome.log
    print(f"seed {seed}: {len(outcome.kills)} kills, {outcome.verdict.aborted} records aborted")


def test_sparks_own_sink_duplicates_under_the_same_kills(broker: Any, tmp_path: Path) -> None:
    for attempt in range(3):
        directory = tmp_path / str(attempt)
        directory.mkdir()
        outcome = run(broker, directory, "spark", ["driver", "driver"], SEED + attempt, "local[2]", None)
        assert outcome.verdict.lost == 0
        if outcome.verdict.duplicated:
            return
        with Cluster(broker.bootstrap_servers) as cluster:
            for topic in ("in", "out"):
                Admin(cluster).delete_topic(topic)
    pytest.fail("Spark's sink showed no duplicates: the harness would not notice them either")
