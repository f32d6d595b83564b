"""The floor: the least Python that receives the same bytes, checks CRC32C and writes them (`floor_server.py`)."""

from __future__ import annotations

import sys

from bench.peers.base import CommandPeer


class Floor(CommandPeer):
    name = "floor"
    creates_topics = False

    def command(self, port: int) -> list[str]:
        return [sys.executable, "-m", "bench.peers.floor_server", str(port), str(self.directory)]
