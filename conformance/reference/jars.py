"""Brings the jars of Apache Kafka by Maven, once, into the git-ignored `.cache/kafka-<version>/`."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

KAFKA_VERSION = "4.3.0"
POM = Path(__file__).with_name("pom.xml")
REPOSITORY_ROOT = Path(__file__).parents[2]
CACHE = REPOSITORY_ROOT / ".cache"
CLASS_ARCHIVE = "tools.jsa"
DOWNLOAD_TIMEOUT_S = 900


class ReferenceMissingError(Exception):
    """The machine has no Java or no Maven; the message is one line for a person."""


def missing() -> str | None:
    """Says in one line what the reference needs and the machine lacks, or returns None."""
    absent = [command for command in ("java", "mvn") if shutil.which(command) is None]
    if not absent:
        return None
    return (
        f"Apache Kafka as reference needs {' and '.join(absent)}: install a JDK 17 (or later) and Maven"
        " (Debian: openjdk-17-jdk-headless maven)"
    )


def jars() -> list[Path]:
    """The classpath of Kafka's server, tools and streams, downloaded on first use."""
    directory = CACHE / f"kafka-{KAFKA_VERSION}"
    stamp = directory / "pom.sha256"
    wanted = hashlib.sha256(POM.read_bytes()).hexdigest()
    if not _is_stamped(stamp, wanted):
        if (reason := missing()) is not None:
            raise ReferenceMissingError(reason)
        with locked(CACHE / f"kafka-{KAFKA_VERSION}.lock"):
            # Another process may have finished the download while this one waited for the lock.
            if not _is_stamped(stamp, wanted):
                _download(directory)
                _archive_classes(directory)
                stamp.write_text(wanted)
    return sorted(directory.glob("*.jar"))


def jar(artifact: str) -> Path:
    """One of Kafka's own jars, by its artifact's name."""
    found = [path for path in jars() if path.name == f"{artifact}-{KAFKA_VERSION}.jar"]
    assert len(found) == 1, f"{artifact} is not among the dependencies of {POM.name}"
    return found[0]


def _is_stamped(stamp: Path, wanted: str) -> bool:
    return stamp.is_file() and stamp.read_text() == wanted


def _download(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    command = [
        "mvn",
        "-B",
        "-q",
        "-f",
        str(POM),
        "dependency:copy-dependencies",
        f"-DoutputDirectory={directory}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"Maven could not bring Apache Kafka {KAFKA_VERSION}:\n{done.stdout}{done.stderr}")


def _archive_classes(directory: Path) -> None:
    """Has the JVM store the parsed classes of an admin client, which halves the time of a tool's start.

    The tool fails, since nobody listens on port 1, but by then it has loaded what the others need as well.
    A JVM that does not like the archive works without it.
    """
    settings = directory / "impatient.properties"
    settings.write_text("default.api.timeout.ms=500\nrequest.timeout.ms=500\n")
    tool = ("org.apache.kafka.tools.TopicCommand", "--list", "--bootstrap-server", "127.0.0.1:1")
    command = ["java", f"-XX:ArchiveClassesAtExit={directory / CLASS_ARCHIVE}", "-XX:+UseSerialGC"]
    command += ["-cp", f"{directory}/*", *tool, "--command-config", str(settings)]
    subprocess.run(command, capture_output=True, timeout=DOWNLOAD_TIMEOUT_S, check=False)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
