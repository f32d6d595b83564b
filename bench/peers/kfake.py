"""franz-go's kfake: a broker in Go that keeps everything in memory. Go brings and compiles it on first use."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from bench.peers.base import CommandPeer
from conformance.reference.jars import CACHE

SOURCE = Path(__file__).parents[1] / "kfake"
BUILD_TIMEOUT_S = 900


class Kfake(CommandPeer):
    name = "kfake"

    def __init__(self, settings: Mapping[str, str]) -> None:
        super().__init__(settings)
        self._program = built()

    def command(self, port: int) -> list[str]:
        return [str(self._program), str(port)]


def built() -> Path:
    if shutil.which("go") is None:
        raise RuntimeError("kfake needs go (Debian: golang)")
    CACHE.mkdir(exist_ok=True)
    program = CACHE / "kfake"
    newest = max((SOURCE / name).stat().st_mtime for name in ("main.go", "go.mod"))
    if not program.exists() or program.stat().st_mtime < newest:
        subprocess.run(["go", "build", "-o", str(program), "."], cwd=SOURCE, check=True, timeout=BUILD_TIMEOUT_S)
    return program
