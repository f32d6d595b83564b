"""`oncelog serve` itself is killed by strace at the n-th write and the n-th sync of its logs, from InitProducerId to
the last COMPLETE, and started again.

It is what `test_crash.py` does with a disk in memory, with nothing simulated: the process that a user runs, its
threads, its files, its metadata. strace counts the calls of each thread; all writes to logs are of one thread, so
those are enumerated without a gap. Syncs are spread over a few threads, and the first that comes to the n-th dies.

ONCELOG_STRACE_STRIDE=1 takes every point; `make soak` does. Where strace is not there or may not trace, it is skipped.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from reading import committed_offset, read

from oncelog.cli.main import main
from oncelog.protocol.errors import ErrorCode
from oncelog.testing import Broker
from tests.bad_input.raw import RawClient, wait_until
from tests.bad_input.requests import create_topic, end_offset, list_offsets, offsets_of, record
from tests.soak import Soak
from tests.transactions.wire_producer import END, NEW, OLD, TxnProducer, port_of

TOPICS = ("a", "b")
GROUP, ID = "g", "x"
TIMEOUT_MS = 60_000
"""Of every TxnProducer."""
PLAN = (("first", True), ("second", False), ("third", True))
"""Transactions, and whether they are to be committed."""
STRIDE = int(os.environ.get("ONCELOG_STRACE_STRIDE", "12"))
LOGS = ("a-0", "b-0", "__transaction_state-0", "__consumer_offsets-0")
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "log.initial.task.delay.ms": "3600000",
}

pytestmark = [pytest.mark.soak, pytest.mark.slow, pytest.mark.timeout(120 + 3000 // STRIDE)]


class Calls(NamedTuple):
    """System calls to die at: which, and of which files."""

    name: str
    files: tuple[str, ...]


LOG_FILES = tuple(f"{directory}/00000000000000000000.log" for directory in LOGS)
WRITES = Calls("pwrite64", LOG_FILES)
SYNCS = Calls("fdatasync", LOG_FILES)
METADATA = Calls("pwrite64,fdatasync", ("metadata.sqlite-wal",))
"""A block of producer ids is taken when InitProducerId needs one."""


@cache
def why_not() -> str | None:
    """Why processes cannot be traced here, if so."""
    if shutil.which("strace") is None:
        return "strace is not installed (apt-get install strace)"
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        try:
            with attached(sleeper, ["-e", "trace=none"]):
                return None
        except AssertionError as error:
            return f"strace may not trace here: {error}"
        finally:
            sleeper.kill()


@contextmanager
def attached(process: subprocess.Popen[Any], options: list[str]) -> Iterator[None]:
    """strace is attached to all threads of the process, which runs at its own speed up to there."""
    command = ["strace", "-f", "-p", str(process.pid), "-o", os.devnull, *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tracer:
        assert tracer.stderr is not None
        try:
            said = tracer.stderr.readline()
            assert " attached" in said, said
            yield
        finally:
            process.kill()
            tracer.communicate()


@contextmanager
def serving(directory: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """`oncelog serve`, and its port."""
    settings = SETTINGS | {"log.dirs": str(directory), "listeners": "PLAINTEXT://127.0.0.1:0"}
    command = [sys.executable, "-m", "oncelog", "serve"]
    command += [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    # The broker would take the variables of these tests for settings of its own.
    surroundings = {name: value for name, value in os.environ.items() if not name.startswith("ONCELOG_")}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=surroundings
    ) as process:
        try:
            yield process, _port(process)
        finally:
            process.kill()


def _port(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    port = None
    for line in process.stdout:
        found = re.search(r"listening on \S+:(\d+),", line)
        port = int(found[1]) if found else port
        if port is not None and "started" in line:
            return port
    raise AssertionError(f"oncelog serve ended with exit code {process.wait()}")


class Story:
    """What the client has asked for and what it was told."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.acknowledged: list[str] = []
        self.producer: TxnProducer | None = None

    @property
    def in_doubt(self) -> list[str]:
        return [name for name in self.asked if name not in self.acknowledged]

    def tell(self, client: RawClient, generation: int) -> None:
        self.producer = producer = TxnProducer(client, generation, ID)
        for number, (name, commit) in enumerate(PLAN, 1):
            for topic in TOPICS:
                assert producer.send(topic, record(name.encode())) == 0
            assert producer.send_offset(GROUP, "a", number) == 0
            self.asked.append(name)
            assert producer.end(commit) == 0
            self.acknowledged.append(name)


def die(directory: Path, generation: int, calls: Calls, number: int) -> tuple[Story, bool]:
    """The broker dies at the call of that number. The story, and whether the broker outlived it."""
    story = Story()
    paths = [word for name in calls.files for word in ("-P", str(directory / name))]
    inject = f"inject={calls.name}:signal=SIGKILL:when={number}"
    options = [*paths, "-e", f"trace={calls.name}", "-e", inject]
    with serving(directory) as (process, port), attached(process, options):
        try:
            with RawClient(port) as client:
                story.tell(client, generation)
        except OSError:
            # The end of the process is the end of its connections.
            assert process.wait(30) == -signal.SIGKILL
            return story, False
        return story, True


def look(directory: Path, story: Story, generation: int, *, retry: bool) -> None:
    """After the restart: nothing acknowledged is lost, nothing else is half there, nothing hangs."""
    with Broker(SETTINGS, data_dir=directory) as broker:
        address, port = broker.bootstrap_servers, port_of(broker)
        done = set(story.acknowledged)
        with RawClient(port) as client:
            if retry and story.in_doubt:
                done |= ask_again(client, story, generation)
            broker.clock.advance(TIMEOUT_MS)
            for topic in TOPICS:
                wait_until(lambda topic=topic: stable_end(client, topic) == end_offset(client, topic), "all has ended")  # type: ignore[misc]
        views = [read(address, topic, 1)[0] for topic in TOPICS]
        assert views[0] == views[1], f"a part of a transaction is visible: {views}"
        wanted = [name for name, commit in PLAN if commit]
        assert views[0] == [name for name in wanted if name in views[0]], f"out of order, twice or aborted: {views}"
        assert set(views[0]) <= set(story.asked), f"visible without a commit: {views}"
        assert set(views[0]) >= done & set(wanted), f"an acknowledged commit is lost: {views}"
        numbers = [number for number, (name, _) in enumerate(PLAN, 1) if name in views[0]]
        assert committed_offset(address, GROUP, "a", 0) == max(numbers, default=None)
        with RawClient(port) as client:
            successor = TxnProducer(client, generation, ID)
            assert successor.send("a", record(b"next")) == 0
            assert successor.end() == 0
        assert read(address, "a", 1) == [[*views[0], "next"]]
    assert main(["verify-log", str(directory)]) == 0


def ask_again(client: RawClient, story: Story, generation: int) -> set[str]:
    """The client sends its EndTxn once more, to the broker that came back."""
    (name,) = story.in_doubt
    assert story.producer is not None
    answer = client.call(story.producer.end_request(dict(PLAN)[name]), END[generation])
    assert answer.error_code == ErrorCode.NONE
    return {name}


def stable_end(client: RawClient, topic: str) -> int:
    ((code, offset),) = offsets_of(client.call(list_offsets(topic, isolation_level=1), 8))
    assert code == 0
    return offset


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data with all the topics, and a transaction in each of them."""
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    directory: Path = tmp_path_factory.mktemp("ground") / "data"
    with Broker(SETTINGS, data_dir=directory) as broker, RawClient(port_of(broker)) as client:
        for topic in TOPICS:
            create_topic(client, topic)
        producer = TxnProducer(client, OLD, "ground")
        for topic in TOPICS:
            assert producer.send(topic) == 0
        assert producer.send_offset("other", "a", 1) == 0
        assert producer.end(False) == 0
    return directory


@pytest.mark.parametrize("generation", [OLD, NEW], ids=["v1", "v2"])
@pytest.mark.parametrize("calls", [WRITES, SYNCS, METADATA], ids=["writes", "syncs", "metadata"])
def test_killed_at_a_system_call(ground: Path, tmp_path: Path, generation: int, calls: Calls, soak: Soak) -> None:
    directory = tmp_path / "data"
    killed = 0
    for number in itertools.count(1, STRIDE):
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(ground, directory)
        story, survived = die(directory, generation, calls, number)
        look(directory, story, generation, retry=number % 2 == 0)
        if survived:
            break
        killed += 1
        soak.progress(f"killed at {number} of {calls.name}")
    assert killed or calls is METADATA
    soak.result(f"killed {killed} times, at every {STRIDE}. {calls.name} of a thread: nothing lost, nothing hangs")
