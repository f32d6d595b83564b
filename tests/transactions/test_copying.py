"""Consume, transform, produce: programs and broker are killed at random, the output is the input, once each.

The source is written all the time, so that there is always something to interrupt, and a reader with read_committed
runs through all of it. ONCELOG_KILLS sets how often each program is killed; a hundred times is a soak test.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from flow import Feeder, Watcher
from reading import create_topic, read, verify_data

from conformance.reference.tools import compiled, java_command
from oncelog.testing import Broker
from tests.soak import Soak

KILLS = int(os.environ.get("ONCELOG_KILLS", "5"))
RECORDS_PER_SECOND = 100
PARTITIONS = 3
HERE = Path(__file__).parent

pytestmark = [pytest.mark.soak, pytest.mark.timeout(120 + 20 * KILLS)]


def copier_command(client: str, *arguments: str) -> list[str]:
    if client == "java":
        return java_command("Copier", *arguments, more_jars=[compiled(HERE / "Copier.java")])
    return [sys.executable, "-W", "ignore", str(HERE / "copier.py"), client, *arguments]


@contextmanager
def running(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def check_prefix(seen: list[list[str]], expected: list[list[str]]) -> None:
    for got, wanted in zip(seen, expected, strict=True):
        got = got[:]
        assert got == wanted[: len(got)], "not once each, in order"


def let_run(process: subprocess.Popen[bytes], seconds: float) -> None:
    """For that long, or until it gives up."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)


class Trial:
    """Lets one copier after the other run, and kills it."""

    def __init__(self, broker: Broker, command: list[str], feeder: Feeder, watcher: Watcher, seed: str) -> None:
        self._broker = broker
        self._command = command
        self._feeder = feeder
        self._watcher = watcher
        self._rng = random.Random(seed)
        self.kills = self.broker_kills = self.given_up = 0

    def round(self) -> None:
        with running(self._command) as process:
            # Most of them come to copying, and are killed somewhere in it; some do not come that far.
            if self._rng.random() < 0.85:
                before = self._watcher.count
                self._watcher.wait("nothing is copied", lambda: self._watcher.count > before, process)
            let_run(process, self._rng.expovariate(3))
            if self._rng.random() < 0.5:
                self._broker.kill()
                self._broker.start()
                self.broker_kills += 1
                let_run(process, self._rng.uniform(0, 1))
            if process.poll() is None:
                self.kills += 1
            else:
                self.given_up += 1
        check_prefix(self._watcher.values, self._feeder.values)

    def finish(self) -> None:
        """The source gets no more, and is copied to its end."""
        self._feeder.stop()
        wanted = self._feeder.values
        done = False
        while not done:
            with running(self._command) as process:
                done = self._watcher.wait("not all is copied", lambda: self._watcher.values == wanted, process)


@pytest.mark.parametrize(
    ("client", "flush_on_ack"),
    [
        ("confluent", True),
        ("kafka-python", False),
        ("aiokafka", True),
        pytest.param("java", False, marks=(pytest.mark.java, pytest.mark.slow)),
    ],
)
def test_a_copier_that_is_killed_again_and_again_copies_once_each(client: str, flush_on_ack: bool, soak: Soak) -> None:
    with Broker({"log.flush.on.ack": flush_on_ack}, subprocess=True) as broker:
        address = broker.bootstrap_servers
        for topic in ("source", "target"):
            create_topic(address, topic, PARTITIONS)
        command = copier_command(client, address, "source", "target", "copier")
        with (
            Watcher(address, "target", PARTITIONS) as watcher,
            Feeder(address, "source", PARTITIONS, RECORDS_PER_SECOND, ahead_of=lambda: watcher.count) as feeder,
        ):
            trial = Trial(broker, command, feeder, watcher, client)
            while trial.kills < KILLS:
                trial.round()
                soak.progress(f"{trial.kills} of {KILLS} kills, {watcher.count} of {feeder.count} records copied")
            trial.finish()
            assert read(address, "target", PARTITIONS) == feeder.values
        broker.stop()
        verify_data(broker.data_dir)
    soak.result(
        f"{trial.kills} kills of the copier, {trial.broker_kills} of the broker, {trial.given_up} copiers gave up"
        f" by themselves: {feeder.count} records, once each, in order"
    )
