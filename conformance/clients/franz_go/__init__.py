"""franz-go, through an agent in Go."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from conformance.clients.agents import AgentClient
from conformance.reference.jars import CACHE

HERE = Path(__file__).parent
BUILD_TIMEOUT_S = 600


class FranzGoClient(AgentClient):
    def __init__(self, bootstrap_servers: str) -> None:
        super().__init__([str(_built()), bootstrap_servers])


def version() -> str:
    found = re.search(r"franz-go v(\S+)", (HERE / "go.mod").read_text())
    assert found is not None
    return found[1]


def missing() -> str | None:
    return None if shutil.which("go") else "franz-go needs go (Debian: golang)"


def _built() -> Path:
    """The agent, compiled when its source is newer; Go brings the modules."""
    CACHE.mkdir(exist_ok=True)
    program = CACHE / "franz-go-agent"
    newest = max((HERE / name).stat().st_mtime for name in ("agent.go", "go.mod"))
    if not program.exists() or program.stat().st_mtime < newest:
        subprocess.run(["go", "build", "-o", str(program), "."], cwd=HERE, check=True, timeout=BUILD_TIMEOUT_S)
    return program
