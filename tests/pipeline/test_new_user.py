"""What somebody does who adopts the sink: a job of their own, submitted to a standalone cluster of two workers.

Its driver, an executor and the broker are killed within open transactions, the checkpoint is removed and comes back,
and continuous processing is tried. Every order has to become one invoice. `ONCELOG_PIPELINE_RUNS` and
`ONCELOG_PIPELINE_BROKERS` make it longer, as those of test_kills.py. Without a connector orders are files.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.reference import jars as reference_jars
from conformance.reference.kafka import ApacheKafka
from oncelog.client.admin import Admin
from oncelog.client.cluster import Cluster
from oncelog.client.offsets import Isolation
from oncelog.client.producer import Producer
from oncelog.pipeline import jars
from oncelog.pipeline.chaos import JobProcess, Kill, kill_each, wait_until
from oncelog.pipeline.evidence import aborted_offsets, count_end, read_topic
from oncelog.pipeline.moments import WhileWriting
from oncelog.pipeline.verdict import Verdict, judge
from oncelog.testing import Broker
from tests.pipeline.invoices import BATCH, TRANSACTIONAL_ID
from tests.pipeline.standalone import StandaloneCluster

pytest.importorskip("psutil", reason="needs the extra `pipeline`")
RUNS = int(os.environ.get("ONCELOG_PIPELINE_RUNS", "1"))
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600 * (RUNS + 1))]

KILLS = ("executor", "broker", "driver")
FED = 3 * BATCH
PROGRAM = Path(__file__).with_name("invoices.py")


@pytest.fixture(params=os.environ.get("ONCELOG_PIPELINE_BROKERS", "oncelog").split(","))
def broker(request: pytest.FixtureRequest) -> Iterator[Any]:
    reason = jars.missing() or reference_jars.missing()
    if reason is not None:
        pytest.skip(reason)
    with Broker(subprocess=True) if request.param == "oncelog" else ApacheKafka() as running:
        with Cluster(running.bootstrap_servers) as cluster:
            Admin(cluster).create_topic("orders", partitions=2)
            Admin(cluster).create_topic("invoices", partitions=3)
        yield running


class Orders:
    """Where orders come from: a topic, or files where this Spark has no connector."""

    def __init__(self, servers: str, directory: Path) -> None:
        self.count = 0
        self.jars: list[Path] = []
        self._servers = servers
        self._files = directory / "orders"
        try:
            self.jars = jars.connector_jars()
            self.source = "kafka"
        except jars.JarsMissing:
            self._files.mkdir()
            self.source = str(self._files)

    def add(self) -> int:
        """Work for three batches; returns how much of it has to be written before a kill."""
        orders = [_order(number) for number in range(self.count, self.count + FED)]
        if self.source == "kafka":
            with Cluster(self._servers) as cluster, Producer(cluster) as producer:
                for order in orders:
                    producer.produce("orders", order.encode())
        else:
            for start in range(0, FED, BATCH):
                hidden = self._files / f".{self.count + start}"
                hidden.write_text("\n".join(orders[start : start + BATCH]))
                hidden.rename(self._files / hidden.name[1:])
        self.count += FED
        return BATCH


def _order(number: int) -> str:
    return json.dumps({"number": number, "customer": f"customer-{number % 53}", "cents": number * 7 % 10_000})


class NewUser:
    def __init__(self, broker: Any, spark: StandaloneCluster, directory: Path) -> None:
        self.broker, self.directory = broker, directory
        self.servers: str = broker.bootstrap_servers
        self.orders = Orders(self.servers, directory)
        self.checkpoint = directory / "checkpoint"
        self._spark = spark

    def job(self, *modes: str, master: str = "") -> JobProcess:
        """Each kind of start has a log of its own."""
        arguments = (self.servers, str(self.checkpoint), self.orders.source, *modes)
        command = self._spark.submit_command(master or self._spark.master, self.orders.jars, PROGRAM, *arguments)
        log = self.directory / f"{'-'.join(modes) or 'forever'}.log"
        return JobProcess(command, log, executor_parents=self._spark.worker_pids)

    def run_killed(self, seed: int) -> list[Kill]:
        """Until all orders of the round have become invoices."""
        chooser = random.Random(seed)
        kills = list(KILLS)
        chooser.shuffle(kills)
        moment = WhileWriting(self.servers, TRANSACTIONAL_ID, "invoices")
        job = self.job()
        job.start()
        try:
            written = lambda: count_end(self.servers, "invoices")  # noqa: E731
            done = kill_each(job, self.broker, kills, self.orders.add, written, chooser, moment)
            assert wait_until(lambda: self._is_through(job)), job.log()[-3000:]
        finally:
            job.close()
        return done

    def _is_through(self, job: JobProcess) -> bool:
        if job.exit_code is not None:
            # A query may fail while its broker is away for long; whoever runs it starts it again.
            job.start()
        return self.judge().visible >= self.orders.count

    def run_to_its_end(self, *modes: str, master: str = "") -> tuple[int, str]:
        job = self.job("available-now", *modes, master=master)
        job.start()
        try:
            return job.wait(), job.log()
        finally:
            job.close()
            job.log_path.unlink()

    def judge(self) -> Verdict:
        committed = read_topic(self.servers, "invoices", Isolation.READ_COMMITTED)
        ids = [f"0:{json.loads(each.value)['number']}" for each in committed]
        expected = [f"0:{number}" for number in range(self.orders.count)]
        return judge(expected, committed, ids, aborted_offsets(self.servers, "invoices"))


def test_every_order_becomes_one_invoice(broker: Any, tmp_path: Path) -> None:
    with StandaloneCluster(tmp_path) as spark:
        user = NewUser(broker, spark, tmp_path)
        kills = [kill for seed in range(RUNS) for kill in user.run_killed(seed)]
        print([(kill.what, kill.transaction) for kill in kills])
        assert user.judge().exactly_once, user.judge()
        assert 2 * sum(kill.transaction is not None for kill in kills) >= len(kills), kills

        user.orders.add()
        away = tmp_path / "away"
        shutil.move(user.checkpoint, away)
        # What is refused before a row is written needs no cluster.
        code, log = user.run_to_its_end(master="local[1]")
        assert code != 0
        assert f"the transactional id '{TRANSACTIONAL_ID}' belongs to query" in log

        shutil.rmtree(user.checkpoint, ignore_errors=True)
        shutil.move(away, user.checkpoint)
        code, log = user.run_to_its_end("continuous")
        assert code == 0, log[-3000:]
        assert "continuous: ContinuousTrigger" in log
        verdict = user.judge()
        assert verdict.exactly_once, verdict
        assert verdict.expected == verdict.visible == FED * (len(kills) + 1)
