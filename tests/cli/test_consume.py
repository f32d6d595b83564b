from __future__ import annotations

import json
import subprocess
import sys

import pytest

from oncelog.cli.consume import parse_start
from oncelog.client.consumer import Start
from oncelog.testing import Broker
from tests.cli.conftest import Run


@pytest.fixture
def filled(run: Run, topic: str) -> str:
    """Five records with timestamps 1000 to 1004 in partition 0."""
    lines = [
        json.dumps({"key": f"k{n}", "value": f"v{n}", "timestamp": 1000 + n, "partition": 0, "headers": {"h": str(n)}})
        for n in range(5)
    ]
    assert run("produce", topic, "--json", stdin="\n".join(lines).encode()).code == 0
    return topic


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("beginning", "v0 v1 v2 v3 v4"),
        ("end", ""),
        ("3", "v3 v4"),
        ("-2", "v3 v4"),
        ("s@1002", "v2 v3 v4"),
        ("s@1970-01-01T00:00:01.003+00:00", "v3 v4"),
        ("99", ""),
    ],
)
def test_where_to_begin(run: Run, filled: str, start: str, expected: str) -> None:
    assert run("consume", filled, "-e", "-o", start).out.split() == expected.split()


def test_a_format(run: Run, filled: str) -> None:
    result = run("consume", filled, "-c", "1", "-o", "2", "-f", r"%t/%p/%o %k=%v %s %T %h %K %S 100%%\x21\n")
    assert result == (0, f"{filled}/0/2 k2=v2 v2 1002 h=2 2 2 100%!\n", "")


def test_count_and_partition(run: Run, filled: str) -> None:
    assert run("consume", filled, "-c", "2", "-u").out == "v0\nv1\n"
    assert run("consume", filled, "-e", "-p", "1").out == ""
    assert run("consume", filled, "-e", "-p", "0", "-p", "1", "-c", "100").out.count("\n") == 5


def test_bytes_that_are_not_text(run: Run, topic: str) -> None:
    run("produce", topic, "-p", "0", stdin=b"\xff\xfe\n")
    record = json.loads(run("consume", topic, "-e", "--json").out)
    assert record["value"] == {"base64": "//4="}
    assert record["offset"] == 0
    assert record["timestamp_type"] == "create"


def test_bytes_are_written_raw_in_a_format(run: Run, topic: str, bootstrap_servers: str) -> None:
    run("produce", topic, "-p", "0", stdin=b"\xff\xfe\n")
    command = [sys.executable, "-m", "oncelog.cli.main", "consume", topic, "-e", "-f", "%v", "-b", bootstrap_servers]
    assert subprocess.run(command, check=True, capture_output=True).stdout == b"\xff\xfe"


def test_isolation_levels_are_understood(run: Run, filled: str) -> None:
    for isolation in ("read_committed", "read_uncommitted"):
        assert run("consume", filled, "-e", "--isolation", isolation).out.count("\n") == 5


def test_what_does_not_exist(run: Run, topic: str) -> None:
    missing = f"{topic}-missing"
    assert run("consume", missing, "-e") == (
        1,
        "",
        f"oncelog consume: there is no topic '{missing}'; oncelog topics list shows those that exist\n",
    )
    expected = f"oncelog consume: partition 7 does not exist; topic '{topic}' has 3 partitions (0 to 2)\n"
    assert run("consume", topic, "-e", "-p", "7") == (1, "", expected)


def test_starts_are_parsed() -> None:
    assert parse_start("earliest") == Start.earliest()
    assert parse_start("latest") == Start.latest()
    assert parse_start("-7") == Start.tail(7)
    assert parse_start("s@1969-12-31T00:00:00+00:00") == Start.timestamp(0)


@pytest.mark.parametrize("options", [[], ["--json"], ["--isolation", "read_uncommitted"]])
def test_damaged_records_are_not_printed(run: Run, options: list[str]) -> None:
    with Broker() as broker:
        for value in (b"first", b"second", b"third"):
            assert run("produce", "t", "-b", broker.bootstrap_servers, stdin=value + b"\n").code == 0
        log = broker.data_dir / "t-0" / f"{0:020}.log"
        log.write_bytes(log.read_bytes().replace(b"second", b"sEcond"))
        result = run("consume", "t", "-e", *options, "-b", broker.bootstrap_servers)
        assert result.code == 1
        assert "first" in result.out
        assert "cond" not in result.out
        assert result.err == (
            "oncelog consume: the records 1 to 1 of t-0 are damaged: their checksum does not match; check the broker's "
            "disk with oncelog verify-log; to go on behind them: -p 0 -o 2\n"
        )
        assert run("consume", "t", "-e", "-p", "0", "-o", "2", "-b", broker.bootstrap_servers).out == "third\n"
        # What is damaged can still be described.
        assert "3 records" in run("topics", "describe", "t", "-b", broker.bootstrap_servers).out
