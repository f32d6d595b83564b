"""Agents in Go: built on first use, with the modules that Go brings."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING

from conformance.reference.jars import CACHE, locked

if TYPE_CHECKING:
    from pathlib import Path

BUILD_TIMEOUT_S = 600


def missing() -> str | None:
    return None if shutil.which("go") else "needs go (Debian: golang)"


def version(directory: Path, module: str) -> str:
    """The version of a module that the agent in a directory is built with."""
    found = re.search(rf"{module} v(\S+)", (directory / "go.mod").read_text())
    assert found is not None
    return found[1]


def built(directory: Path) -> Path:
    """The agent's program, compiled when one of its sources is newer."""
    program = CACHE / f"{directory.name}-agent"
    newest = max(path.stat().st_mtime for path in (*directory.glob("*.go"), *directory.glob("go.*")))
    # A client for each broker is opened at the same time.
    with locked(CACHE / f"{directory.name}-agent.lock"):
        if not program.exists() or program.stat().st_mtime < newest:
            subprocess.run(["go", "build", "-o", str(program), "."], cwd=directory, check=True, timeout=BUILD_TIMEOUT_S)
    return program
