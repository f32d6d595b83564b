"""Oncelog as `oncelog serve` runs it, with Kafka's promise (page cache) and with its own (fsync before the ack)."""

from __future__ import annotations

import compileall
import sys
from collections.abc import Mapping
from pathlib import Path

import oncelog
from bench.peers.base import CommandPeer


class Oncelog(CommandPeer):
    name = "oncelog"
    flush_on_ack = False

    def __init__(self, settings: Mapping[str, str]) -> None:
        super().__init__(settings)
        # As pip does when it installs a wheel: with PYTHONDONTWRITEBYTECODE each start would compile all of it again.
        compileall.compile_dir(Path(oncelog.__file__).parent, quiet=1)

    @property
    def log_directory(self) -> Path:
        return self.directory / "data"

    def command(self, port: int) -> list[str]:
        settings = {"log.flush.on.ack": str(self.flush_on_ack).lower(), **self.settings}
        return [
            *(sys.executable, "-m", "oncelog", "serve", "--log-level", "warning"),
            *("--data", str(self.directory / "data"), "--listen", f"127.0.0.1:{port}"),
            *(part for key, value in settings.items() for part in ("-o", f"{key}={value}")),
        ]


class OncelogControl(Oncelog):
    """Where something grows, one in which it does not: what a request costs at that moment on this machine."""

    name = "oncelog-control"


class OncelogFsync(Oncelog):
    name = "oncelog-fsync"
    flush_on_ack = True
