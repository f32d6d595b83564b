"""Kafka Streams with exactly_once_v2, unchanged: a stateful word count with a repartition topic and a changelog.

Every change of every count is written, so that for each word 1, 2, 3, … must be read, whatever is killed meanwhile.
ONCELOG_STREAMS_KILLS sets how often the program and the broker are killed, in turn.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from flow import Feeder, Watcher
from reading import create_topic, read_pairs, topic_configs, verify_data

from conformance.reference.kafka import ApacheKafka
from conformance.reference.tools import compiled, java_command
from oncelog.testing import Broker
from tests.soak import IS_LONG, Soak

KILLS = int(os.environ.get("ONCELOG_STREAMS_KILLS", "3"))
LINES_PER_SECOND = 40
PARTITIONS = 3
WORDS = [f"word-{number}" for number in range(23)]
REPARTITION, CHANGELOG = "wordcount-words-repartition", "wordcount-counts-changelog"
SOURCE = Path(__file__).with_name("WordCount.java")
RESTART_S = 120

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.soak, pytest.mark.timeout(240 + 60 * KILLS)]


def make_line(number: int) -> str:
    return " ".join(random.Random(number).choices(WORDS, k=4))


@contextmanager
def running(address: str, directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The program; what it says goes to a file."""
    command = java_command("WordCount", address, "lines", "counts", str(directory), more_jars=[compiled(SOURCE)])
    with (directory / "program.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def counts_of(lines: list[list[str]]) -> Counter[str]:
    return Counter(word for partition in lines for line in partition for word in line.split())


def check_counts(written: list[list[str]]) -> Counter[str]:
    """Every word is counted from 1 on, without a gap and without a repetition; the last count of each."""
    counts: Counter[str] = Counter()
    for partition in written:
        for change in partition:
            word, _, count = change.rpartition(" ")
            counts[word] += 1
            assert int(count) == counts[word], f"{word}: {count} where {counts[word]} is due"
    return counts


def wait_for_more(watcher: Watcher, process: subprocess.Popen[bytes]) -> None:
    before = watcher.count
    assert watcher.wait("nothing is counted", lambda: watcher.count > before, process), "the program has ended"


def wait_for_all(feeder: Feeder, watcher: Watcher, process: subprocess.Popen[bytes]) -> None:
    feeder.stop()
    wanted = sum(counts_of(feeder.values).values())
    assert watcher.wait("not all is counted", lambda: watcher.count >= wanted, process), "the program has ended"
    assert check_counts(watcher.values) == counts_of(feeder.values)


def changelog(address: str) -> dict[str, int]:
    """The state as a program that restores it finds it."""
    pairs = read_pairs(address, CHANGELOG, PARTITIONS)
    return {key.decode(): int.from_bytes(value) for partition in pairs for key, value in partition}


def create_topics(address: str) -> None:
    for topic in ("lines", "counts"):
        create_topic(address, topic, PARTITIONS)


def test_counts_are_exact_while_program_and_broker_are_killed_in_turn(tmp_path: Path, soak: Soak) -> None:
    rng = random.Random(KILLS)
    with Broker(subprocess=True) as broker:
        address = broker.bootstrap_servers
        create_topics(address)
        kills = broker_kills = 0
        with (
            Feeder(address, "lines", PARTITIONS, LINES_PER_SECOND, make_line) as feeder,
            Watcher(address, "counts", PARTITIONS, patience_s=RESTART_S) as watcher,
        ):
            while kills + broker_kills < KILLS:
                with running(address, tmp_path) as process:
                    wait_for_more(watcher, process)
                    feeder.go_on(rng.expovariate(1))
                    if kills + broker_kills + 1 < KILLS:
                        broker.kill()
                        broker_kills += 1
                        broker.start()
                        wait_for_more(watcher, process)
                        feeder.go_on(rng.expovariate(1))
                kills += 1
                check_counts(watcher.values)
                soak.progress(f"{kills} + {broker_kills} of {KILLS} kills, {watcher.count} words counted")
            with running(address, tmp_path) as process:
                wait_for_all(feeder, watcher, process)
        assert changelog(address) == dict(counts_of(feeder.values))
        broker.stop()
        verify_data(broker.data_dir)
    soak.result(
        f"{kills} kills of the program, {broker_kills} of the broker:"
        f" {watcher.count} words of {feeder.count} lines, every count exact"
    )


@pytest.mark.skipif(not IS_LONG, reason="a comparison for `make soak`")
def test_topics_and_counts_are_those_with_apache_kafka(tmp_path: Path) -> None:
    seen = []
    for name, broker in (("oncelog", Broker()), ("kafka", ApacheKafka())):
        directory = tmp_path / name
        directory.mkdir()
        with broker:
            address = broker.bootstrap_servers
            create_topics(address)
            with (
                Feeder(address, "lines", PARTITIONS, LINES_PER_SECOND, make_line, count_max=200) as feeder,
                Watcher(address, "counts", PARTITIONS) as watcher,
                running(address, directory) as process,
            ):
                wait_for_more(watcher, process)
                wait_for_all(feeder, watcher, process)
            configs = {topic: topic_configs(address, topic) for topic in (REPARTITION, CHANGELOG)}
            seen.append((check_counts(watcher.values), changelog(address), configs))
    assert seen[0] == seen[1]
