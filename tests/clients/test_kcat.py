"""kcat: metadata, producing with every codec and consuming, alone and in a group."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from payloads import ACKS, CODECS, LARGE_TOPIC, TIMEOUT_S, stored_codecs, value_of
from stock_clients import CLIENTS

from oncelog.testing import Broker

# Debian called it kafkacat before version 1.7.
KCAT = shutil.which("kcat") or shutil.which("kafkacat")
pytestmark = pytest.mark.skipif(KCAT is None, reason="kcat is missing (Debian: apt-get install kcat)")

SIZES_BYTES = (1, 1000, 100_000)
_FORMAT = "%o %T %K %S %h\n%k%s\n"
_FRAME = re.compile(rb"(\d+) (\d+) (-?\d+) (-?\d+) ?([^\n]*)\n")


def kcat(broker: Broker, *args: str) -> bytes:
    assert KCAT is not None
    done = subprocess.run(
        [KCAT, "-b", broker.bootstrap_servers, *args],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def produce_files(broker: Broker, directory: Path, topic: str, sizes_bytes: tuple[int, ...], *args: str) -> None:
    """Each file is a record, so that its bytes may be any."""
    files = [directory / str(size_bytes) for size_bytes in sizes_bytes]
    for file, size_bytes in zip(files, sizes_bytes, strict=True):
        file.write_bytes(value_of(size_bytes))
    common = ("-P", "-t", topic, "-p", "0", "-k", "the key", "-H", "one=1", "-H", "two=2", "-X", "linger.ms=20")
    kcat(broker, *common, *args, *map(str, files))


def parse(output: bytes) -> list[tuple[int, bytes, bytes, bytes]]:
    """Offset, headers, key and value of each record, by the lengths that kcat tells."""
    records, position = [], 0
    while match := _FRAME.match(output, position):
        offset, timestamp_ms, key_size, value_size, headers = match.groups()
        assert int(timestamp_ms) > 1_600_000_000_000
        middle = match.end() + int(key_size)
        position = middle + int(value_size) + 1
        records.append((int(offset), headers, output[match.end() : middle], output[middle : position - 1]))
    assert position == len(output)
    return records


@pytest.mark.parametrize("acks", ACKS)
@pytest.mark.parametrize("codec", CODECS)
def test_files_come_back(broker: Broker, unique: Callable[[str], str], tmp_path: Path, codec: str, acks: str) -> None:
    topic = unique("kcat")
    CLIENTS["confluent-kafka"].create_topic(broker.bootstrap_servers, topic, {})
    produce_files(broker, tmp_path, topic, SIZES_BYTES, "-z", codec, "-X", f"acks={acks}")
    output = kcat(broker, "-C", "-t", topic, "-o", "beginning", "-c", str(len(SIZES_BYTES)), "-f", _FORMAT)
    assert parse(output) == [
        (offset, b"one=1,two=2", b"the key", value_of(size_bytes)) for offset, size_bytes in enumerate(SIZES_BYTES)
    ]
    assert codec in stored_codecs(broker.data_dir, topic)


def test_a_file_of_10_mb(broker: Broker, unique: Callable[[str], str], tmp_path: Path) -> None:
    topic = unique("kcat-large")
    CLIENTS["confluent-kafka"].create_topic(broker.bootstrap_servers, topic, LARGE_TOPIC)
    produce_files(broker, tmp_path, topic, (10_000_000,), "-X", "message.max.bytes=11000000")
    output = kcat(broker, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-f", _FORMAT)
    assert parse(output) == [(0, b"one=1,two=2", b"the key", value_of(10_000_000))]


def test_a_group_reads_all_and_goes_on(broker: Broker, unique: Callable[[str], str], tmp_path: Path) -> None:
    topic, group = unique("kcat-group"), unique("group")
    CLIENTS["confluent-kafka"].create_topic(broker.bootstrap_servers, topic, {})
    produce_files(broker, tmp_path, topic, SIZES_BYTES)
    reading = ("-G", group, "-X", "auto.offset.reset=earliest", "-f", _FORMAT, "-q")
    output = kcat(broker, "-c", str(len(SIZES_BYTES)), *reading, topic)
    assert [offset for offset, *_ in parse(output)] == [0, 1, 2]
    produce_files(broker, tmp_path, topic, (2, 3))
    assert [offset for offset, *_ in parse(kcat(broker, "-c", "2", *reading, topic))] == [3, 4]


def test_metadata_and_offsets_by_time(broker: Broker, unique: Callable[[str], str], tmp_path: Path) -> None:
    topic = unique("kcat-list")
    CLIENTS["confluent-kafka"].create_topic(broker.bootstrap_servers, topic, {})
    produce_files(broker, tmp_path, topic, SIZES_BYTES)
    listed = json.loads(kcat(broker, "-L", "-J", "-t", topic))
    assert [found["name"] for found in listed["brokers"]] == [broker.bootstrap_servers]
    (found,) = listed["topics"]
    assert found["topic"] == topic
    assert [(each["partition"], each["leader"]) for each in found["partitions"]] == [(0, 1)]
    assert f'topic "{topic}" with 1 partitions' in kcat(broker, "-L").decode()
    for time_ms, offset in (("0", 0), ("-1", 3), ("-2", 0)):
        assert kcat(broker, "-Q", "-t", f"{topic}:0:{time_ms}").decode().strip() == f"{topic} [0] offset {offset}"
