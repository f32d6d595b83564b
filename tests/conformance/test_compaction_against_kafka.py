"""Compaction: the same records in a compacted topic of Apache Kafka and of ours, after both were cleaned."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from conformance.reference.kafka import ApacheKafka
from conformance.reference.tools import run_tool
from oncelog.testing import Broker

pytestmark = pytest.mark.java

COUNT = 1000
KEY_COUNT = 60
FILLER_COUNT = 400
CODECS = ("none", "lz4")
SETTINGS = {"log.cleaner.backoff.ms": "100", "log.initial.task.delay.ms": "0"}
TOPIC = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",
    "min.cleanable.dirty.ratio": "0.01",
    "index.interval.bytes": "2000",
}
CLEANED_TIMEOUT_S = 60

Survivor = tuple[int, bytes, bytes | None]


def make_records() -> list[tuple[bytes, bytes | None]]:
    """Values and tombstones for a few keys, in several segments."""
    rng = random.Random(11)
    return [
        (
            b"key-%d" % rng.randrange(KEY_COUNT),
            None if rng.random() < 0.1 else b"%d-" % index + rng.randbytes(2000) + bytes(2000),
        )
        for index in range(COUNT)
    ]


RECORDS = make_records()
LAST = {key: (offset, key, value) for offset, (key, value) in enumerate(RECORDS)}
FILLER = [(b"filler-%d" % index, random.Random(index).randbytes(8000)) for index in range(FILLER_COUNT)]
"""Keys of their own, so that all of the records get into closed segments."""


def fill(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for future in admin.create_topics([NewTopic(codec, 1, 1, config=TOPIC) for codec in CODECS]).values():
        future.result(30)
    for codec in CODECS:
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "log_level": 0,
                "compression.codec": codec,
                "batch.num.messages": 20,
                "linger.ms": 50,
            }
        )
        for key, value in RECORDS + FILLER:
            producer.produce(codec, value, key=key, partition=0)
        assert producer.flush(60) == 0


def survivors(bootstrap: str, topic: str) -> list[Survivor]:
    """The records that are left of those that are compared."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[Survivor] = []
    try:
        while True:
            message = consumer.poll(30)
            assert message is not None
            if message.error() is not None:
                break
            offset, key = message.offset(), message.key()
            assert offset is not None
            assert isinstance(key, bytes)
            if offset >= COUNT:
                break
            value = message.value()
            assert value is None or isinstance(value, bytes)
            found.append((offset, key, value))
    finally:
        consumer.close()
    return found


def wait_until_cleaned(bootstrap: str, topic: str) -> list[Survivor]:
    deadline = time.monotonic() + CLEANED_TIMEOUT_S
    while len(found := survivors(bootstrap, topic)) > len(LAST):
        assert time.monotonic() < deadline, f"{len(found)} of {COUNT} records are left"
        time.sleep(0.2)
    return found


@pytest.fixture(scope="module")
def cleaned_by_oncelog(java: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[Survivor]]]:
    directory = tmp_path_factory.mktemp("oncelog")
    with Broker(SETTINGS, data_dir=directory) as broker:
        fill(broker.bootstrap_servers)
        found = {codec: wait_until_cleaned(broker.bootstrap_servers, codec) for codec in CODECS}
    return directory, found


def test_the_same_records_survive(cleaned_by_oncelog: tuple[Path, dict[str, list[Survivor]]]) -> None:
    _, ours = cleaned_by_oncelog
    with ApacheKafka(SETTINGS) as kafka:
        fill(kafka.bootstrap_servers)
        theirs = {codec: wait_until_cleaned(kafka.bootstrap_servers, codec) for codec in CODECS}
    assert ours == theirs
    assert ours["none"] == sorted(LAST.values())


@pytest.mark.parametrize("codec", CODECS)
def test_dump_log_reads_what_we_cleaned(cleaned_by_oncelog: tuple[Path, dict[str, list[Survivor]]], codec: str) -> None:
    directory, found = cleaned_by_oncelog
    segments = sorted((directory / f"{codec}-0").glob("*.log"))
    files = ",".join(map(str, segments))
    done = run_tool("kafka-dump-log", "--deep-iteration", "--files", files)
    assert done.returncode == 0, done.stderr
    assert "isvalid: false" not in done.stdout
    offsets = [int(offset) for offset in re.findall(r"^\| offset: (\d+)", done.stdout, re.MULTILINE)]
    assert [offset for offset in offsets if offset < COUNT] == [offset for offset, *_ in found[codec]]
    assert re.search(r"deleteHorizonMs: OptionalLong\[\d+\]", done.stdout)
    for suffix in (".index", ".timeindex"):
        indexes = ",".join(str(path.with_suffix(suffix)) for path in segments)
        done = run_tool("kafka-dump-log", "--verify-index-only", "--files", indexes)
        assert done.returncode == 0, done.stderr
        for complaint in ("Found timestamp mismatch", "Mismatches in", "Found out of order", "Exception"):
            assert complaint not in done.stdout + done.stderr


def test_the_checkpoint_is_where_kafka_has_it(
    cleaned_by_oncelog: tuple[Path, dict[str, list[Survivor]]],
) -> None:
    directory, _ = cleaned_by_oncelog
    version, count, *lines = (directory / "cleaner-offset-checkpoint").read_text().splitlines()
    assert (version, int(count)) == ("0", len(lines))
    assert {line.split()[0] for line in lines} >= set(CODECS)
    assert all(int(line.split()[2]) > COUNT for line in lines if line.split()[0] in CODECS)
