"""Files: Kafka's own tool reads ours without complaint, and we open a directory that Kafka wrote."""

from __future__ import annotations

import random
import re
import shutil
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from conformance.files.checks import take_over
from conformance.reference.kafka import ApacheKafka
from conformance.reference.tools import run_tool
from oncelog.testing import Broker

pytestmark = pytest.mark.java

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
COUNT = 300
VALUES = [b"%d-" % index + random.Random(index).randbytes(5000 + index) + bytes(4000) for index in range(COUNT)]
"""Several segments of the smallest size that Kafka allows, and worth compressing, or librdkafka would not."""


def create(bootstrap: str, topic: str, partitions: int = 1, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for future in admin.create_topics([NewTopic(topic, partitions, 1, config=config)]).values():
        future.result(30)


def produce(bootstrap: str, topic: str, values: list[bytes], codec: str = "none") -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "log_level": 0,
            "compression.codec": codec,
            "batch.num.messages": 20,
        }
    )
    failures: list[object] = []
    for index, value in enumerate(values):
        producer.produce(
            topic,
            value,
            key=b"k%d" % (index % 7),
            headers=[("h", b"x"), ("n", None)],
            timestamp=1_700_000_000_000 + index,
            partition=0,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    assert producer.flush(30) == 0
    assert failures == []


def consume(bootstrap: str, topic: str, count: int) -> list[tuple[int, bytes, bytes | None, int]]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "files", "enable.auto.commit": False, "log_level": 0}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[tuple[int, bytes, bytes | None, int]] = []
    try:
        while len(found) < count:
            message = consumer.poll(30)
            assert message is not None, f"only {len(found)} of {count} records of {topic}"
            assert message.error() is None
            offset, value = message.offset(), message.value()
            assert offset is not None
            assert value is not None
            found.append((offset, value, message.key(), message.timestamp()[1]))
    finally:
        consumer.close()
    return found


@pytest.fixture(scope="module")
def written_by_oncelog(java: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with every codec, rolled segments and deleted records, after a clean stop."""
    directory = tmp_path_factory.mktemp("oncelog")
    with Broker(data_dir=directory) as broker:
        for codec in CODECS:
            create(broker.bootstrap_servers, codec, **{"segment.bytes": "1048576", "index.interval.bytes": "1000"})
            produce(broker.bootstrap_servers, codec, VALUES, codec)
    return directory


@pytest.mark.parametrize("codec", CODECS)
def test_dump_log_reads_our_segments(written_by_oncelog: Path, codec: str) -> None:
    segments = sorted((written_by_oncelog / f"{codec}-0").glob("*.log"))
    files = ",".join(map(str, segments))
    done = run_tool("kafka-dump-log", "--deep-iteration", "--print-data-log", "--files", files)
    assert done.returncode == 0, done.stderr
    assert "isvalid: false" not in done.stdout
    offsets = [int(offset) for offset in re.findall(r"^\| offset: (\d+)", done.stdout, re.MULTILINE)]
    assert offsets == list(range(COUNT))
    assert f"compresscodec: {codec}" in done.stdout.lower()


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_dump_log_finds_our_indexes_sane(written_by_oncelog: Path, suffix: str) -> None:
    indexes = sorted((written_by_oncelog / "none-0").glob(f"*{suffix}"))
    assert len(indexes) > 2
    files = ",".join(map(str, indexes))
    for option in ("--index-sanity-check", "--verify-index-only"):
        done = run_tool("kafka-dump-log", option, "--files", files)
        assert done.returncode == 0, done.stderr
        assert "Found timestamp mismatch" not in done.stdout
        assert "Mismatches in" not in done.stdout
        assert "Found out of order" not in done.stdout
        assert "Exception" not in done.stdout + done.stderr


def test_dump_log_reads_our_producer_snapshots_and_checkpoints(written_by_oncelog: Path) -> None:
    snapshots = sorted((written_by_oncelog / "none-0").glob("*.snapshot"))
    assert snapshots
    done = run_tool("kafka-dump-log", "--files", str(snapshots[-1]))
    assert done.returncode == 0, done.stderr
    assert re.search(r"producerId: \d+ producerEpoch: 0 .*lastSequence: 299", done.stdout), done.stdout


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_we_open_and_continue_a_directory_that_kafka_wrote(java: None, tmp_path: Path, clean: bool) -> None:
    ours = tmp_path / "ours"
    with ApacheKafka() as kafka:
        for codec in CODECS:
            create(kafka.bootstrap_servers, codec, **{"segment.bytes": "1048576", "segment.ms": "600000"})
            produce(kafka.bootstrap_servers, codec, VALUES, codec)
        expected = {codec: consume(kafka.bootstrap_servers, codec, COUNT) for codec in CODECS}
        if clean:
            kafka.stop()
        else:
            kafka.kill()
        shutil.copytree(kafka.data_dir, ours)
    with Broker(data_dir=ours) as broker:
        for codec in CODECS:
            assert consume(broker.bootstrap_servers, codec, COUNT) == expected[codec]
            produce(broker.bootstrap_servers, codec, [b"more"], codec)
            assert consume(broker.bootstrap_servers, codec, COUNT + 1)[-1][:2] == (COUNT, b"more")


def test_kafka_opens_a_directory_that_we_wrote(written_by_oncelog: Path) -> None:
    with ApacheKafka() as kafka:
        create(kafka.bootstrap_servers, "zstd", **{"segment.bytes": "1048576"})
        kafka.stop()
        take_over(written_by_oncelog / "zstd-0", kafka.data_dir / "zstd-0")
        kafka.start()
        found = consume(kafka.bootstrap_servers, "zstd", COUNT)
        assert [offset for offset, *_ in found] == list(range(COUNT))
        produce(kafka.bootstrap_servers, "zstd", [b"more"])
        assert consume(kafka.bootstrap_servers, "zstd", COUNT + 1)[-1][0] == COUNT


def test_kafka_recovers_what_we_left_when_we_were_killed(java: None, tmp_path: Path) -> None:
    """With zeros behind the last record, where there was room for more."""
    with Broker({"log.flush.on.ack": True}, subprocess=True, data_dir=tmp_path / "ours") as broker:
        create(broker.bootstrap_servers, "small")
        for value in (b"first", b"second", b"third"):
            produce(broker.bootstrap_servers, "small", [value])
        broker.kill()
        records = (tmp_path / "ours" / "small-0" / f"{0:020d}.log").read_bytes()
    assert records.endswith(bytes(1000))
    with ApacheKafka() as kafka:
        create(kafka.bootstrap_servers, "small")
        produce(kafka.bootstrap_servers, "small", [b"to be replaced"])
        kafka.kill()
        take_over(tmp_path / "ours" / "small-0", kafka.data_dir / "small-0")
        kafka.start()
        produce(kafka.bootstrap_servers, "small", [b"more"])
        found = consume(kafka.bootstrap_servers, "small", 4)
        assert [(offset, value) for offset, value, *_ in found] == [
            *((0, b"first"), (1, b"second"), (2, b"third"), (3, b"more")),
        ]
