"""How a server or a client that the harness started comes to its end."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

_END_TIMEOUT_S = 10.0


def stop(process: subprocess.Popen[Any], timeout_s: float) -> None:
    """As SIGTERM does, or by SIGKILL if that takes too long."""
    process.terminate()
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        kill(process)


def kill(process: subprocess.Popen[Any]) -> None:
    process.kill()
    process.wait()


def end_children() -> None:
    """Ends all processes that this one has started: those of threads that were left in the middle of a scenario."""
    deadline = time.monotonic() + _END_TIMEOUT_S
    while children := _children():
        late = time.monotonic() > deadline
        for pid in children:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL if late else signal.SIGTERM)
            # The thread that waits for it may be faster.
            with suppress(ChildProcessError):
                os.waitpid(pid, 0 if late else os.WNOHANG)
        time.sleep(0.05)


def _children() -> list[int]:
    """As Linux tells them; nothing elsewhere, where a terminal's Ctrl-C still reaches most of them."""
    found: list[int] = []
    for path in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            found += map(int, path.read_text().split())
    return found
