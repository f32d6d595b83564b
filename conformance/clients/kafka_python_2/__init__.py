"""kafka-python 2.x, through an agent: it cannot live in one process with 3.x."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from conformance.clients.agents import AgentClient
from conformance.reference.jars import CACHE

HERE = Path(__file__).parent
VERSION = "2.3.3"
INSTALL_TIMEOUT_S = 300


class KafkaPython2Client(AgentClient):
    def __init__(self, bootstrap_servers: str) -> None:
        environment = os.environ | {"PYTHONPATH": str(_installed())}
        super().__init__([sys.executable, "-W", "ignore", str(HERE / "agent.py"), bootstrap_servers], env=environment)


def missing() -> str | None:
    """pip could not bring it, which also says so; the download is kept for the run."""
    try:
        _installed()
    except subprocess.CalledProcessError as error:
        return f"pip cannot bring kafka-python {VERSION} (exit code {error.returncode})"
    return None


def _installed() -> Path:
    """A directory of its own with the package and its codecs, which pip brings on first use."""
    directory = CACHE / f"kafka-python-{VERSION}"
    done = directory / ".complete"
    if not done.exists():
        shutil.rmtree(directory, ignore_errors=True)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        packages = [f"kafka-python[snappy,lz4,zstd]=={VERSION}"]
        subprocess.run([*pip, "--target", str(directory), *packages], check=True, timeout=INSTALL_TIMEOUT_S)
        done.touch()
    return directory
