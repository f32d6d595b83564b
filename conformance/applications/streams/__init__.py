"""A word count with Kafka Streams and exactly_once_v2, stopped and continued."""

from __future__ import annotations

import subprocess
import tempfile
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.client import Record
from conformance.clients import open_client
from conformance.reference.jars import KAFKA_VERSION, missing
from conformance.reference.tools import java_command
from conformance.scenarios.groups import read
from conformance.scenarios.run import create

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.client import Json
    from conformance.scenarios.run import Run

HERE = Path(__file__).parent
START_TIMEOUT_S = 180
STOP_TIMEOUT_S = 60
TIME_MS = 1_700_000_000_000
TOPIC_CONFIGS = ("cleanup.policy", "segment.bytes", "retention.ms", "message.timestamp.type")
LINES = (b"to be or not to be", b"that is the question", b"to be is to do")
__all__ = ["missing", "version", "word_count"]


def version() -> str:
    return KAFKA_VERSION


def word_count(run: Run) -> Json:
    """What is counted, before and after the application is stopped: its state comes back from the broker."""
    source, target, name = run.topic("lines"), run.topic("counts"), run.topic("word-count")
    with closing(open_client("confluent", run.address)) as client:
        for topic in (source, target):
            create(client, topic, configs={"retention.ms": "-1"})
        with closing(client.open_consumer(target, run.topic("reader"), isolation="read_committed")) as consumer:
            seen: dict[str, Json] = {}
            for label, lines in (("first", LINES[:2]), ("after a restart", LINES[2:])):
                records = [Record(line, timestamp_ms=TIME_MS) for line in lines]
                client.produce(source, records, codec="none", acks="all")
                with _running(run.address, name, source, target):
                    words = sum(len(line.split()) for line in lines)
                    seen[label] = _values(read(consumer, words, START_TIMEOUT_S))
        for kind in ("changelog", "repartition"):
            configs = client.describe_configs(f"{name}-counts-{kind}")
            seen[kind] = {key: configs[key] for key in TOPIC_CONFIGS}
        with closing(client.open_consumer(source, name)) as consumer:
            seen["committed"] = consumer.committed(0)
    return seen


def _values(records: Json) -> Json:
    """Without offsets: how many markers lie between the counts is up to the clock."""
    assert isinstance(records, list)
    return [record["value"] for record in records if isinstance(record, dict)]


@contextmanager
def _running(address: str, name: str, source: str, target: str) -> Iterator[None]:
    """The program, with an empty directory for its state, until the block ends."""
    with tempfile.TemporaryDirectory(prefix="streams-") as state:
        arguments = (str(HERE / "WordCount.java"), address, name, source, target, state)
        process = subprocess.Popen(
            java_command(*arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            yield
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
