"""sarama, through an agent in Go."""

from __future__ import annotations

from pathlib import Path

from conformance.clients import go
from conformance.clients.agents import AgentClient

HERE = Path(__file__).parent
MODULE = "IBM/sarama"


class SaramaClient(AgentClient):
    def __init__(self, bootstrap_servers: str) -> None:
        super().__init__([str(go.built(HERE)), bootstrap_servers])


def version() -> str:
    return go.version(HERE, MODULE)
