"""The floor: the least Python that receives the same bytes, checks CRC32C and writes them (`floor_server.py`)."""

from __future__ import annotations

import os
import sys

from bench.peers.base import CommandPeer


class Floor(CommandPeer):
    name = "floor"
    creates_topics = False
    options: tuple[str, ...] = ()

    def command(self, port: int) -> list[str]:
        return [sys.executable, "-m", "bench.peers.floor_server", str(port), str(self.directory), *self.options]

    def forget_topic(self, name: str) -> None:
        """It has the files open still; cut to nothing, they take no room."""
        for path in self.directory.glob(f"{name}-*.log"):
            os.truncate(path, 0)
            path.unlink()


class FloorFsync(Floor):
    name = "floor-fsync"
    options = ("fsync",)
