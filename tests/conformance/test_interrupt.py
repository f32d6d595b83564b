"""Ctrl-C in the middle of a scenario: what the harness started is gone, and it says so. Called by another program, it
leaves signals, logs and children to that."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from contextlib import suppress
from pathlib import Path

import pytest

from conformance import __main__ as conformance_main
from conformance import client_log
from conformance.clients import kcat

ROOT = Path(__file__).parents[2]
MARK = "CONFORMANCE_TEST_MARK"
TIMEOUT_S = 60


@pytest.mark.skipif(kcat.missing() is not None, reason="kcat is missing")
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the processes of a user are told by Linux's /proc")
@pytest.mark.parametrize(("first", "second"), [(signal.SIGINT, signal.SIGTERM), (signal.SIGTERM, signal.SIGINT)])
def test_nothing_is_left_behind(first: signal.Signals, second: signal.Signals) -> None:
    mark = uuid.uuid4().hex
    what = ["--expected", "oncelog", "--client", "kcat", "--scenario", "rebalance"]
    harness = subprocess.Popen(
        [sys.executable, "-m", "conformance", "compare", *what],
        cwd=ROOT,
        env=os.environ | {MARK: mark},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + TIMEOUT_S
    # Members of a group are the clients that end last: nothing tells them to.
    while not any(b"-G" in command for command in _marked(mark)):
        assert time.monotonic() < deadline
        assert harness.poll() is None, harness.communicate()
        time.sleep(0.01)
    harness.send_signal(first)
    assert harness.stderr is not None
    assert harness.stderr.readline() == "stopping the brokers and clients …\n"
    harness.send_signal(second)
    _, told = harness.communicate(timeout=TIMEOUT_S)
    assert _marked(mark) == []
    assert harness.returncode == 130
    assert "stopping" not in told, "the second signal broke into the orderly stop"
    assert told.splitlines()[-1] == "interrupted: all that was started is stopped, and no card is written"


def test_in_the_process_of_another_program_an_interrupt_is_left_to_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log = tmp_path / "clients.log"
    log.write_text("of an earlier run")
    handlers = [signal.getsignal(number) for number in conformance_main.INTERRUPTS]
    seen = []

    def interrupted(_: object) -> int:
        seen.extend(signal.getsignal(number) for number in conformance_main.INTERRUPTS)
        raise KeyboardInterrupt

    monkeypatch.setattr(client_log, "CLIENT_LOG", log)
    monkeypatch.setattr(conformance_main, "_files", interrupted)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, text=True) as child:
        with pytest.raises(KeyboardInterrupt):
            conformance_main.main(["files"])
        # It ends well if nobody has killed it.
        child.communicate("\n", timeout=TIMEOUT_S)
    assert child.returncode == 0
    assert seen == handlers
    assert log.read_text() == "of an earlier run"


def _marked(mark: str) -> list[list[bytes]]:
    """The command lines of all processes that have inherited the mark."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        # Processes of others, and those that end in between.
        with suppress(OSError):
            if f"{MARK}={mark}".encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append((process / "cmdline").read_bytes().split(b"\0"))
    return found
