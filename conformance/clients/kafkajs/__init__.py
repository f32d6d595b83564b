"""kafkajs, through an agent in Node."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from conformance.clients.agents import AgentClient
from conformance.reference.jars import CACHE, locked

HERE = Path(__file__).parent
VERSION = "2.2.4"
INSTALL_TIMEOUT_S = 300


class KafkaJsClient(AgentClient):
    def __init__(self, bootstrap_servers: str) -> None:
        # The requests have room for an instance id, but nothing lets a user give one.
        super().__init__(["node", str(_installed() / "agent.js"), bootstrap_servers], static_members=False)


def missing() -> str | None:
    absent = [command for command in ("node", "npm") if shutil.which(command) is None]
    return f"kafkajs needs {' and '.join(absent)} (Debian: nodejs npm)" if absent else None


def _installed() -> Path:
    """A directory with the agent beside its packages, which npm brings on first use."""
    directory = CACHE / f"kafkajs-{VERSION}"
    directory.mkdir(parents=True, exist_ok=True)
    # A client for each broker is opened at the same time.
    with locked(directory / ".lock"):
        for name in ("package.json", "agent.js"):
            shutil.copyfile(HERE / name, directory / name)
        if not (directory / "node_modules" / "kafkajs").exists():
            subprocess.run(
                ["npm", "install", "--silent", "--no-audit", "--no-fund"],
                cwd=directory,
                check=True,
                stdout=subprocess.DEVNULL,
                timeout=INSTALL_TIMEOUT_S,
            )
    return directory
