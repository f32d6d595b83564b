"""Exactly-once under SIGKILL of driver, executor and broker; and Spark's own sink, so that the test can fail.

A job runs for ever. In each round it gets records, its driver, an executor and the broker are killed in random order,
and when all has arrived everything that was ever written is judged.

`ONCELOG_PIPELINE_RUNS` says how many rounds each broker gets (default 1; `make pipeline-soak` takes 30),
`ONCELOG_PIPELINE_BROKERS` which brokers (default `oncelog`, or `oncelog,apache`), and `ONCELOG_PIPELINE_SEED` where the
random numbers begin. `ONCELOG_PIPELINE_OUTCOMES` names a file that gets a line of JSON for each round.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from conformance.reference import jars as reference_jars
from conformance.reference.kafka import ApacheKafka
from oncelog.client.admin import Admin
from oncelog.client.cluster import Cluster
from oncelog.client.offsets import Isolation
from oncelog.client.producer import Producer
from oncelog.pipeline import jars
from oncelog.pipeline.archive import fast_start
from oncelog.pipeline.chaos import EtlProcess, Kill, kill_each, wait_until
from oncelog.pipeline.commands import PROGRAM
from oncelog.pipeline.evidence import (
    CommittedReader,
    aborted_offsets,
    batches_of_checkpoint,
    count_end,
    read_topic,
    torn_batches,
)
from oncelog.pipeline.moments import Moment, RandomMoment, WhileGrowing, WhileWriting
from oncelog.pipeline.verdict import Seen, Verdict, judge
from oncelog.testing import Broker

pytest.importorskip("psutil", reason="needs the extra `pipeline`")
RUNS = int(os.environ.get("ONCELOG_PIPELINE_RUNS", "1"))
SEED = int(os.environ.get("ONCELOG_PIPELINE_SEED", "1"))
OUTCOMES = os.environ.get("ONCELOG_PIPELINE_OUTCOMES")
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1200 * RUNS)]

KILLS = ("driver", "executor", "broker")
FED = 1_000
"""Records before each kill; the job takes a third of them in a batch."""
BATCH = FED // 3
CLUSTER = "local-cluster[2,1,1024]"
SQL = str(PROGRAM.with_name("sql") / "trace.sql")


@pytest.fixture(params=os.environ.get("ONCELOG_PIPELINE_BROKERS", "oncelog").split(","))
def broker(request: pytest.FixtureRequest) -> Iterator[Any]:
    reason = jars.missing() or reference_jars.missing()
    if reason is not None:
        pytest.skip(reason)
    with Broker(subprocess=True) if request.param == "oncelog" else ApacheKafka() as running:
        yield running


class Outcome(NamedTuple):
    kills: list[Kill]
    batches: int
    verdict: Verdict
    torn: list[int]
    gone: list[Seen]
    """What the reader beside the job was given, and is not there at the end, or was given twice."""


class Job:
    """The ETL job between its topics, with a reader of committed records beside it."""

    def __init__(self, broker: Any, directory: Path, sink: str, master: str) -> None:
        self.broker = broker
        self.servers: str = broker.bootstrap_servers
        self.sink = sink
        self.fed = 0
        self._checkpoint = directory / "checkpoint"
        arguments = ["--bootstrap", self.servers, "--from", "in", "--to", "out", "--sink", sink, "--sql", SQL]
        arguments += ["--transactional-id", "etl", "--checkpoint", str(self._checkpoint), "--master", master]
        arguments += ["--max-offsets", str(BATCH), "--trigger-seconds", "0.1"]
        # By default Spark forgets the ends of all but the last hundred batches.
        for key, value in (fast_start() | {"spark.sql.streaming.minBatchesToRetain": "100000"}).items():
            arguments += ["--spark", f"{key}={value}"]
        self.etl = EtlProcess(arguments, directory / "etl.log")
        self.reader = CommittedReader(self.servers, "out")

    def __enter__(self) -> Job:
        with Cluster(self.servers) as cluster:
            Admin(cluster).create_topic("in", partitions=2)
            Admin(cluster).create_topic("out", partitions=3)
        self.reader.start()
        self.etl.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.etl.close()
        self.reader.stop()

    def feed(self) -> int:
        with Cluster(self.servers) as cluster, Producer(cluster) as producer:
            for number in range(self.fed, self.fed + FED):
                producer.produce("in", b"%d" % number, key=b"key-%d" % (number % 97))
        self.fed += FED
        return BATCH

    def run(self, kills: list[str], seed: int, *, aimed: bool) -> Outcome:
        """A kill comes while a batch is being written, or at a random moment after the output has grown."""
        chooser = random.Random(seed)
        moment: Moment = RandomMoment(self.servers, "etl", chooser)
        if self.sink == "spark":
            moment = WhileGrowing(self.servers, "out")
        elif aimed:
            moment = WhileWriting(self.servers, "etl", "out")
        done = kill_each(
            self.etl, self.broker, kills, self.feed, lambda: count_end(self.servers, "out"), chooser, moment
        )
        # What is missing after a long wait is lost, as the verdict says.
        wait_until(self._is_through)
        return self._judge(done)

    def _is_through(self) -> bool:
        if self.etl.exit_code is not None:
            # A query may fail while its broker is away for long; whoever runs it starts it again.
            self.etl.start()
        return len({each.value for each in self.reader.seen}) >= self.fed

    def _judge(self, done: list[Kill]) -> Outcome:
        seen, stops = list(self.reader.seen), {each: set(stops) for each, stops in self.reader.stops.items()}
        committed = read_topic(self.servers, "out", Isolation.READ_COMMITTED)
        source = read_topic(self.servers, "in", Isolation.READ_COMMITTED)
        expected = [f"{each.partition}:{each.offset}" for each in source]
        aborted = aborted_offsets(self.servers, "out")
        batches = batches_of_checkpoint(self._checkpoint)
        return Outcome(
            done,
            len(batches),
            judge(expected, committed, [each.value.decode() for each in committed], aborted),
            torn_batches(committed, stops, "in", batches),
            sorted(Counter(seen) - Counter(committed)),
        )


@pytest.fixture
def note(request: pytest.FixtureRequest) -> Callable[[Outcome, int, str], None]:
    """Keeps what became of a round, for the figures in docs/spark.md."""
    started = time.monotonic()

    def write(outcome: Outcome, seed: int, sink: str) -> None:
        line = {
            "broker": request.node.callspec.params["broker"],
            "sink": sink,
            "seed": seed,
            "seconds": round(time.monotonic() - started, 1),
            "kills": [kill.what for kill in outcome.kills],
            "met": [kill.transaction for kill in outcome.kills],
            "batches": outcome.batches,
            "torn": outcome.torn,
            "gone": len(outcome.gone),
            **outcome.verdict._asdict(),
        }
        print(json.dumps(line))
        if OUTCOMES is not None:
            with Path(OUTCOMES).open("a") as file:
                file.write(json.dumps(line) + "\n")

    return write


def test_each_record_arrives_once_whatever_dies(
    broker: Any, tmp_path: Path, note: Callable[[Outcome, int, str], None]
) -> None:
    met: list[bool] = []
    with Job(broker, tmp_path, "exactly-once", CLUSTER) as job:
        for number in range(RUNS):
            seed = SEED + number
            kills = list(KILLS)
            random.Random(seed).shuffle(kills)
            # Every other round kills while a batch is being written, the rest at any moment.
            outcome = job.run(kills, seed, aimed=number % 2 == 0)
            note(outcome, seed, "exactly-once")
            about = f"seed {seed}: {outcome}\n{job.etl.log()[-5000:]}"
            assert outcome.verdict.exactly_once, about
            assert outcome.verdict.expected == job.fed, about
            assert outcome.verdict.out_of_order == 0, about
            assert outcome.torn == [], about
            assert outcome.gone == [], about
            assert [kill.what for kill in outcome.kills] == kills
            met += [kill.transaction is not None for kill in outcome.kills]
            assert 2 * sum(met) >= len(met), f"too few kills met an open transaction: {met}"


def test_sparks_own_sink_duplicates_under_the_same_kills(
    broker: Any, tmp_path: Path, note: Callable[[Outcome, int, str], None]
) -> None:
    """The quick form kills drivers only, without a cluster: most of its duplicates come from that."""
    kills, master = (list(KILLS), CLUSTER) if RUNS > 1 else (["driver", "driver"], "local[2]")
    with Job(broker, tmp_path, "spark", master) as job:
        for attempt in range(3):
            outcome = job.run(kills, SEED + attempt, aimed=True)
            note(outcome, SEED + attempt, "spark")
            assert outcome.verdict.lost == 0
            if outcome.verdict.duplicated:
                return
    pytest.fail("Spark's sink showed no duplicates: the harness would not notice them either")
