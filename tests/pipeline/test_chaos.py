"""Who kills a job neither waits for what has happened already, nor starts a job for ever that cannot run."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from oncelog.client.admin import Admin
from oncelog.client.cluster import Cluster
from oncelog.pipeline.chaos import RESTARTS_MAX, EtlProcess, kill_each, run_with_kills
from oncelog.pipeline.moments import describe_open
from oncelog.spark.cluster import SinkCluster
from oncelog.spark.options import SinkOptions
from oncelog.spark.transaction import Transactions
from oncelog.testing import Broker

pytest.importorskip("yaml", reason="needs the extra `pipeline`")
psutil = pytest.importorskip("psutil", reason="needs the extra `pipeline`")

BROKER = Broker(subprocess=True)
"""Is not killed here, so it need not run."""


class AtOnce:
    """Any moment will do, or the third at which a kill would meet a transaction."""

    def __init__(self, answers: Sequence[str | None] = (), etl: EtlProcess | None = None) -> None:
        self.is_aimed = bool(answers)
        self.asked = 0
        self._answers, self._etl = answers, etl

    def wait(self, over: Callable[[], bool]) -> None: ...

    def open_transaction(self) -> str | None:
        if self._etl is not None:
            assert psutil.Process(self._etl.pid).status() == psutil.STATUS_STOPPED
        self.asked += 1
        return self._answers[self.asked - 1] if self.is_aimed else None


def test_a_job_that_always_fails_is_given_up(tmp_path: Path) -> None:
    etl = EtlProcess([], tmp_path / "log")
    with pytest.raises(RuntimeError, match=r"again and again(.|\n)*--bootstrap is missing"):
        run_with_kills(etl, BROKER, ["driver"], 1, lambda: 0, random.Random(1), print, AtOnce())
    assert etl.log().count("--bootstrap is missing") == RESTARTS_MAX + 1
    with pytest.raises(RuntimeError, match="again and again"):
        kill_each(etl, BROKER, ["driver"], lambda: 1, lambda: 0, random.Random(1), AtOnce())


def test_a_job_that_is_quick_is_killed_all_the_same(tmp_path: Path) -> None:
    config = tmp_path / "job.yaml"
    # Nobody writes its settings, so the job lives and does nothing.
    os.mkfifo(config)
    etl = EtlProcess(["--config", str(config)], tmp_path / "log")
    output = 0

    def feed() -> int:
        nonlocal output
        output += 1_000
        return 333

    etl.start()
    try:
        done = kill_each(etl, BROKER, ["driver", "driver"], feed, lambda: output, random.Random(1), AtOnce())
        assert [kill.what for kill in done] == ["driver", "driver"]
        assert etl.exit_code is None
    finally:
        etl.close()


@pytest.mark.parametrize("what", ["driver", "broker"])
def test_an_aimed_kill_waits_until_it_meets_a_transaction(tmp_path: Path, what: str) -> None:
    config = tmp_path / "job.yaml"
    os.mkfifo(config)
    etl = EtlProcess(["--config", str(config)], tmp_path / "log")
    moment = AtOnce([None, None, "producer 7"], etl)
    etl.start()
    try:
        with Broker(subprocess=True) as broker:
            (kill,) = kill_each(etl, broker, [what], lambda: 0, lambda: 1, random.Random(1), moment)
            assert (kill.what, kill.transaction, moment.asked) == (what, "producer 7", 3)
            # Both are back, and nobody is paused any more.
            assert psutil.Process(etl.pid).status() != psutil.STATUS_STOPPED
            assert describe_open(broker.bootstrap_servers, "nobody") is None
    finally:
        etl.close()
    assert describe_open(broker.bootstrap_servers, "nobody") is None


def test_an_open_transaction_is_described() -> None:
    with Broker() as broker, Cluster(broker.bootstrap_servers) as admin:
        Admin(admin).create_topic("out", partitions=2)
        options = SinkOptions(broker.bootstrap_servers, "etl", "out", group_id="etl")
        with SinkCluster.open(options) as cluster:
            transactions = Transactions(cluster, options)
            transactions.fence()
            assert describe_open(broker.bootstrap_servers, "etl") is None
            transactions.add_partitions([("out", 0), ("out", 1)])
            assert describe_open(broker.bootstrap_servers, "etl") == "producer 0, epoch 0, 2 partitions"
            transactions.commit()
            assert describe_open(broker.bootstrap_servers, "etl") is None
