"""The Java client in several versions, through one agent that Java runs from its source."""

from __future__ import annotations

import subprocess
from pathlib import Path

from conformance.clients.agents import AgentClient
from conformance.reference.jars import CACHE, KAFKA_VERSION, locked
from conformance.reference.tools import FAST_START

HERE = Path(__file__).parent
DOWNLOAD_TIMEOUT_S = 600
VERSIONS = {"java": KAFKA_VERSION, "java-3.9": "3.9.0", "java-2.8": "2.8.2"}


class JavaClient(AgentClient):
    def __init__(self, bootstrap_servers: str, version: str = KAFKA_VERSION) -> None:
        recent = version.startswith("4.")
        super().__init__(
            [
                "java",
                *FAST_START,
                "-cp",
                f"{client_jars(version)}/*",
                str(HERE / "Agent.java"),
                bootstrap_servers,
            ],
            protocols=("classic", "consumer") if recent else ("classic",),
            specs=("earliest", "latest") if version.startswith("2.") else ("earliest", "latest", "max-timestamp"),
        )


class Java39Client(JavaClient):
    def __init__(self, bootstrap_servers: str) -> None:
        super().__init__(bootstrap_servers, VERSIONS["java-3.9"])


class Java28Client(JavaClient):
    def __init__(self, bootstrap_servers: str) -> None:
        super().__init__(bootstrap_servers, VERSIONS["java-2.8"])


def client_jars(version: str) -> Path:
    """The directory with the jars of a client, brought by Maven on first use."""
    directory = CACHE / f"kafka-clients-{version}"
    done = directory / ".complete"
    # A client for each broker is opened at the same time.
    with locked(CACHE / f"{directory.name}.lock"):
        if not done.exists():
            command = ["mvn", "-B", "-q", "-f", str(HERE / "pom.xml"), "dependency:copy-dependencies"]
            options = ["-Dstyle.color=never", f"-Dkafka.version={version}", f"-DoutputDirectory={directory}"]
            subprocess.run([*command, *options], check=True, timeout=DOWNLOAD_TIMEOUT_S)
            done.touch()
    return directory
