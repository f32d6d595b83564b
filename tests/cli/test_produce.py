from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from oncelog.testing import Broker
from tests.cli.conftest import Run


def read(run: Run, topic: str) -> list[dict[str, Any]]:
    result = run("consume", topic, "-e", "--json")
    assert result.code == 0
    return [json.loads(line) for line in result.out.splitlines()]


def shown(run: Run, topic: str) -> list[tuple[Any, Any]]:
    return [(record["key"], record["value"]) for record in read(run, topic)]


def test_lines_of_stdin(run: Run, topic: str) -> None:
    assert run("produce", topic, "-p", "0", stdin=b"one\n\nthree") == (0, "", f"3 records produced to {topic}\n")
    assert shown(run, topic) == [(None, "one"), (None, ""), (None, "three")]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_codecs(run: Run, topic: str, codec: str) -> None:
    assert run("produce", topic, "-p", "0", "-z", codec, "-q", stdin=b"x\n" * 1000) == (0, "", "")
    assert len(read(run, topic)) == 1000


def test_keys_headers_and_partition(run: Run, topic: str) -> None:
    run("produce", topic, "-K", r"\t", "-p", "2", "-H", "a=1", "-H", "b", stdin=b"k\tv\nno key\n\t\n")
    records = read(run, topic)
    assert [(each["key"], each["value"]) for each in records] == [("k", "v"), (None, "no key"), ("", "")]
    assert {each["partition"] for each in records} == {2}
    assert records[0]["headers"] == [["a", "1"], ["b", None]]


def test_one_key_for_all(run: Run, topic: str) -> None:
    run("produce", topic, "-k", "same", stdin=b"1\n2\n")
    records = read(run, topic)
    assert [each["key"] for each in records] == ["same", "same"]
    assert len({each["partition"] for each in records}) == 1


def test_an_empty_value_may_be_null(run: Run, topic: str) -> None:
    run("produce", topic, "-p", "0", "-Z", "-K", ":", stdin=b"k:\nk:v\n")
    assert shown(run, topic) == [("k", None), ("k", "v")]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acks(run: Run, topic: str, acks: str) -> None:
    run("produce", topic, "-p", "0", stdin=b"first\n")
    assert run("produce", topic, "--acks", acks, "-p", "0", stdin=b"x\n").code == 0
    assert run("consume", topic, "-p", "0", "-o", "1", "-c", "1").out == "x\n"


def test_files_as_values_and_files_of_lines(run: Run, topic: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"a\nb\n")
    assert run("produce", topic, str(path), "-p", "0").err == f"1 record produced to {topic}\n"
    assert run("produce", topic, "-l", str(path), "-l", "-", "-p", "0", stdin=b"c").code == 0
    assert [value for _, value in shown(run, topic)] == ["a\nb\n", "a", "b", "c"]
    missing = run("produce", topic, str(tmp_path / "missing"))
    assert missing.code == 1
    assert missing.err == f"oncelog produce: {tmp_path / 'missing'}: No such file or directory\n"


def test_what_consume_writes_as_json_produce_reads(run: Run, topic: str) -> None:
    lines = [
        {"key": "a", "value": "x", "headers": {"h": "1"}, "partition": 1, "timestamp": 1000},
        {"value": {"base64": "/w=="}, "headers": [["n", None], ["n", {"base64": "/w=="}]], "partition": 1},
        {"key": "\u00e9", "value": None, "partition": 1},
    ]
    given = "".join(json.dumps(line) + "\n" for line in lines).encode()
    assert run("produce", topic, "--json", stdin=given).code == 0
    first = run("consume", topic, "-e", "--json").out
    assert [json.loads(line)["value"] for line in first.splitlines()] == ["x", {"base64": "/w=="}, None]
    run("topics", "create", f"{topic}-copy", "-p", "3")
    assert run("produce", f"{topic}-copy", "--json", stdin=first.encode()).code == 0
    assert run("consume", f"{topic}-copy", "-e", "--json").out == first.replace(topic, f"{topic}-copy")


def test_a_broker_that_goes_away_leaves_the_count(run: Run) -> None:
    with (
        Broker(subprocess=True) as broker,
        subprocess.Popen(
            [sys.executable, "-m", "oncelog.cli.main", "produce", "t", "-b", broker.bootstrap_servers],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process,
    ):
        assert process.stdin is not None
        process.stdin.write(b"first\nsecond\n")
        process.stdin.flush()
        while run("consume", "t", "-e", "-b", broker.bootstrap_servers).out.count("\n") < 2:
            assert process.poll() is None
        broker.kill()
        _, errors = process.communicate(b"third\n", timeout=60)
        assert errors.decode().splitlines() == [
            "2 records produced to t",
            f"oncelog produce: no broker answers at {broker.bootstrap_servers}; is it running? (oncelog serve)",
        ]
        assert process.returncode == 1


def test_a_copy_into_a_topic_with_fewer_partitions(run: Run, topic: str) -> None:
    for partition in range(3):
        run("produce", topic, "-p", str(partition), stdin=b"%d-first\n%d-second\n" % (partition, partition))
    copied = run("consume", topic, "-e", "--json").out.encode()
    for count, expected in {
        1: [[0, 1, 2]],
        2: [[0, 2], [1]],
        4: [[0], [1], [2], []],
    }.items():
        name = f"{topic}-{count}"
        run("topics", "create", name, "-p", str(count))
        assert run("produce", name, "--json", stdin=copied) == (0, "", f"6 records produced to {name}\n")
        for partition, sources in enumerate(expected):
            values = run("consume", name, "-e", "-p", str(partition)).out.split()
            assert sorted(values) == [f"{source}-{place}" for source in sources for place in ("first", "second")]
            for source in sources:
                assert values.index(f"{source}-first") < values.index(f"{source}-second")


def test_a_partition_that_was_written_by_hand_has_to_exist(run: Run, topic: str) -> None:
    result = run("produce", topic, "--json", stdin=b'{"value": "x", "partition": 3}\n')
    assert result.code == 1
    assert f"partition 3 does not exist; topic '{topic}' has 3 partitions (0 to 2)" in result.err


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "not JSON"),
        (b"\xff", "not UTF-8"),
        (b"[]", "not a JSON object"),
        (b'{"valeu": "x"}', "unknown field 'valeu'"),
        (b'{"value": 5}', "value must be a string"),
        (b'{"value": {"base64": "?"}}', "value is not base64"),
        (b'{"headers": 5}', "headers must be"),
        (b'{"partition": -1}', "partition must be a whole number"),
        (b'{"timestamp": true}', "timestamp must be a whole number"),
        (b'{"timestamp": 9223372036854775808}', "timestamp must be a whole number"),
        (b'{"partition": 2147483648}', "partition must be a whole number"),
        (b'{"value": ' + b"[" * 100_000, "nested too deeply"),
    ],
)
def test_a_bad_json_line_is_named_and_what_came_before_is_written(
    run: Run, topic: str, line: bytes, reason: str
) -> None:
    result = run("produce", topic, "--json", stdin=b'{"value": "good"}\n' + line + b"\n")
    assert result.code == 2
    count, complaint = result.err.splitlines()
    assert count == f"1 record produced to {topic}"
    assert complaint.startswith("oncelog produce: stdin, line 2: ")
    assert reason in complaint
    assert shown(run, topic) == [(None, "good")]


def test_refusals(run: Run, topic: str) -> None:
    expected = f"oncelog produce: partition 9 does not exist; topic '{topic}' has 3 partitions (0 to 2)\n"
    assert run("produce", topic, "-p", "9", stdin=b"x\n") == (1, "", expected)
    assert run("produce", "not a name", stdin=b"x\n").err.startswith("oncelog produce: INVALID_TOPIC_EXCEPTION: ")
