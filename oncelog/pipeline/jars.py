"""Brings the jars of Spark's Kafka connector by Maven, once, into a cache: `spark-<version>/` in the user's own, or in
the git-ignored `.cache/` of a checkout.

Exactly four jars are copied. The other dependencies of the connector are Spark's own, which are there already, or
clash with them (slf4j).
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SPARK_VERSION = "4.0.0"
POM = Path(__file__).with_name("pom.xml")
ARTIFACTS = "spark-sql-kafka-0-10_2.13,spark-token-provider-kafka-0-10_2.13,kafka-clients,commons-pool2"
DOWNLOAD_TIMEOUT_S = 900


def cache_directory() -> Path:
    checkout = Path(__file__).parents[2]
    if (checkout / "pyproject.toml").is_file():
        return checkout / ".cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "oncelog"


class JarsMissing(Exception):
    """The connector cannot be had; the message is one line for a person."""


def missing() -> str | None:
    """Says in one line what the connector needs and the machine lacks, or returns None."""
    absent = [command for command in ("java", "mvn") if shutil.which(command) is None]
    if not absent:
        return None
    return f"Spark's Kafka connector needs {' and '.join(absent)}: install a JDK 17 (or later) and Maven"


def connector_jars() -> list[Path]:
    """The connector's jars, for the setting `spark.jars`; downloaded on first use."""
    directory = cache_directory() / f"spark-{SPARK_VERSION}"
    stamp = directory / "pom.sha256"
    wanted = hashlib.sha256(POM.read_bytes() + ARTIFACTS.encode()).hexdigest()
    if not _is_stamped(stamp, wanted):
        if (reason := missing()) is not None:
            raise JarsMissing(reason)
        with _locked(directory.with_name(f"spark-{SPARK_VERSION}.lock")):
            # Another process may have finished the download while this one waited for the lock.
            if not _is_stamped(stamp, wanted):
                _download(directory)
                stamp.write_text(wanted)
    return sorted(directory.glob("*.jar"))


def _is_stamped(stamp: Path, wanted: str) -> bool:
    return stamp.is_file() and stamp.read_text() == wanted


def _download(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    command = ["mvn", "-B", "-q", "-f", str(POM), "dependency:copy-dependencies"]
    command += [f"-DoutputDirectory={directory}", f"-DincludeArtifactIds={ARTIFACTS}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_TIMEOUT_S, check=False)
    if done.returncode != 0:
        reason = (done.stdout + done.stderr).strip().splitlines() or [f"exit code {done.returncode}"]
        raise JarsMissing(f"Maven could not bring Spark's Kafka connector: {reason[0]}")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
