"""Standard streams that are closed, full or left: a sentence and an exit code for every verb."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from oncelog.cli.main import main
from tests.cli.conftest import Run

pytestmark = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")


@pytest.fixture
def environment(bootstrap_servers: str, topic: str, run: Run) -> dict[str, str]:
    run("produce", topic, stdin=b"value\n")
    return os.environ | {"ONCELOG_BOOTSTRAP": bootstrap_servers, "TOPIC": topic, "PYTHON": sys.executable}


def shell(line: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    line = line.replace("oncelog ", "$PYTHON -m oncelog.cli.main ")
    return subprocess.run(["sh", "-c", line], env=environment, capture_output=True, text=True, timeout=60)


VERBS = [
    "help",
    "help topics",
    "version",
    "ping",
    "topics list",
    "topics list --json",
    "topics describe $TOPIC",
    "groups list",
    "txns list",
    "consume $TOPIC -e",
    "consume $TOPIC -e --json",
    "consume --help",
    "dump-log --help",
    "verify-log --help",
]


@pytest.mark.parametrize("verb", VERBS)
def test_a_full_disk(verb: str, environment: dict[str, str]) -> None:
    done = shell(f"oncelog {verb} > /dev/full", environment)
    word = verb.split()[0]
    shown = "topics" if verb == "help topics" else word
    assert done.stderr == f"oncelog {shown}: cannot write to stdout: No space left on device\n"
    assert done.returncode == 1


@pytest.mark.parametrize("verb", VERBS)
def test_a_closed_stdout(verb: str, environment: dict[str, str]) -> None:
    done = shell(f"oncelog {verb} >&-", environment)
    assert done.stderr.endswith(": stdout is closed; to discard the output, redirect it to /dev/null\n")
    assert done.stderr.count("\n") == 1
    assert done.returncode == 1


@pytest.mark.parametrize("verb", VERBS)
def test_a_reader_that_is_gone(verb: str, environment: dict[str, str]) -> None:
    done = shell(f"{{ oncelog {verb}; echo code $? >&2; }} | true", environment)
    assert done.stderr == "code 0\n"


@pytest.mark.parametrize("verb", ["topics describe nosuch", "ping -b 127.0.0.1:1"])
def test_a_closed_stderr(verb: str, environment: dict[str, str]) -> None:
    done = shell(f"oncelog {verb} 2>&-", environment)
    assert (done.returncode, done.stdout) == (1, "")


def test_a_closed_stdin(environment: dict[str, str]) -> None:
    done = shell("oncelog produce $TOPIC <&-", environment)
    assert done.stderr == "oncelog produce: stdin is closed; give --lines FILE, or files\n"
    assert done.returncode == 2


def test_input_that_cannot_be_read(environment: dict[str, str], tmp_path: Path) -> None:
    done = shell(f"oncelog produce $TOPIC --lines {tmp_path}", environment)
    assert done.stderr.endswith(f"{tmp_path}: Is a directory\n")
    assert done.stderr.count("\n") == 1
    assert done.returncode == 1


@pytest.mark.parametrize("verb", ["serve", "ping"])
def test_help_of_argparse_on_a_full_disk(verb: str, environment: dict[str, str]) -> None:
    """It ignores what it cannot write, unless Python keeps it in a buffer."""
    done = shell(f"oncelog {verb} --help > /dev/full", environment | {"PYTHONUNBUFFERED": ""})
    assert done.stderr == f"oncelog {verb}: cannot write to stdout: No space left on device\n"
    assert done.returncode == 1


@pytest.mark.parametrize("redirection", [">&-", "> /dev/full"])
def test_a_broker_serves_without_a_stdout(redirection: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    serve = f"exec {sys.executable} -m oncelog.cli.main serve --data {tmp_path / 'data'} --listen {address}"
    process = subprocess.Popen(["sh", "-c", f"{serve} {redirection}"], stderr=subprocess.PIPE, text=True)
    try:
        while process.poll() is None and main(["ping", "-q", "-b", address]):
            time.sleep(0.05)
    finally:
        process.terminate()
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 0, stderr
    assert "Traceback" not in stderr
    assert ("cannot write to stdout: No space left on device" in stderr) == ("full" in redirection)


NOT_UTF8 = os.fsdecode(b"\xff")


@pytest.mark.parametrize(
    "args",
    [
        ["consume", NOT_UTF8, "-e"],
        ["produce", NOT_UTF8],
        ["topics", "create", NOT_UTF8],
        ["topics", "delete", NOT_UTF8],
        ["groups", "describe", NOT_UTF8],
        ["txns", "describe", NOT_UTF8],
        ["txns", "list", "--match", NOT_UTF8],
    ],
)
def test_a_name_that_is_not_utf8(run: Run, args: list[str]) -> None:
    result = run(*args)
    assert (result.code, result.out) == (2, "")
    assert result.err == f"oncelog {args[0]}: '\\udcff' is not UTF-8; names in Kafka are\n"


def test_a_terminal_without_unicode(environment: dict[str, str]) -> None:
    ascii_only = environment | {"PYTHONIOENCODING": "ascii"}
    done = shell("oncelog groups reset --help", ascii_only)
    assert (done.returncode, done.stderr) == (0, "")
    assert "--by" in done.stdout


@pytest.mark.parametrize(
    "args",
    [
        ["topics", "create", "t", "-r", "40000"],
        ["topics", "create", "t", "-p", "3000000000"],
        ["topics", "alter", "t", "-p", "3000000000"],
        ["txns", "list", "--longer-than", "inf"],
        ["txns", "list", "--longer-than", "1e30"],
        ["groups", "reset", "g", "--topic", "t", "--to", "@9223372036854775808"],
    ],
)
def test_numbers_that_the_protocol_cannot_carry(run: Run, topic: str, args: list[str]) -> None:
    result = run(*(topic if arg == "t" else arg for arg in args))
    assert (result.code, result.out) == (2, "")
    assert result.err.count("\n") == 1
