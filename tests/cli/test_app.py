from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.cli.conftest import Run


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "oncelog.cli.main", *args]


@pytest.fixture
def environment(bootstrap_servers: str) -> dict[str, str]:
    return os.environ | {"ONCELOG_BOOTSTRAP": bootstrap_servers}


@pytest.mark.parametrize("args", [["topics", "list"], ["consume", "t"], ["produce", "t"], ["topics", "create", "t"]])
def test_no_broker_is_one_line_and_exit_code_1(run: Run, args: list[str]) -> None:
    result = run(*args, "-b", "127.0.0.1:1", stdin=b"x\n")
    assert (result.code, result.out) == (1, "")
    expected = f"oncelog {args[0]}: no broker answers at 127.0.0.1:1; is it running? (oncelog serve)\n"
    assert result.err == expected


@pytest.mark.parametrize(
    "args",
    [
        ["topics", "frobnicate"],
        ["topics", "create"],
        ["topics", "list", "--bogus"],
        ["topics", "list", "-b", "host:x"],
        ["topics", "create", "t", "--partitions", "0"],
        ["topics", "create", "t", "--config", "novalue"],
        ["topics", "alter", "t"],
        ["produce", "t", "-z", "rar"],
        ["produce", "t", "--json", "-K", ":"],
        ["produce", "t", "-k", "a", "-K", ":"],
        ["produce", "t", "-K", ""],
        ["produce", "t", "-H", "=x"],
        ["consume"],
        ["consume", "t", "-o", "middle"],
        ["consume", "t", "-o", "s@yesterday"],
        ["consume", "t", "-f", "%q"],
        ["consume", "t", "-f", "%"],
        ["consume", "t", "--json", "-f", "%v"],
        ["consume", "t", "-c", "0"],
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(run: Run, args: list[str]) -> None:
    if args == ["consume"]:
        assert run(*args).code == 0
        return
    result = run(*args)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"oncelog {args[0]}: ")
    assert result.err.count("\n") == 1


def test_a_reader_that_goes_away_ends_it_quietly(run: Run, topic: str, environment: dict[str, str]) -> None:
    run("produce", topic, stdin=b"x" * 100 + b"\n" * 10_000)
    for args in (["consume", topic], ["topics", "describe", topic]):
        process = subprocess.Popen(command(*args), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
        process.stderr.close()
        assert process.wait() == 0


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A shell has its background jobs ignore SIGINT, and so would what we start."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)


def test_ctrl_c_ends_it_quietly(run: Run, topic: str, environment: dict[str, str], interruptible: None) -> None:
    run("produce", topic, stdin=b"ready\n")
    process = subprocess.Popen(
        command("consume", topic), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, b"", b"")
