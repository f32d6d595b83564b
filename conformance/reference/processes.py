"""How a server that was started for a test comes to its end."""

from __future__ import annotations

import subprocess
from typing import Any


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
