"""Brings the jars of Spark's Kafka connector by Maven, once, into a cache: `spark-<version>/` in the user's own, or in
the git-ignored `.cache/` of a checkout.

The connector has to be that of the installed Spark, or at least of its line (4.1.4 runs with the one of 4.1.3): between
lines Spark changes what a connector calls. Exactly four jars are copied. The other dependencies of the connector are
Spark's own, which are there already, or clash with them (slf4j).
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

logger = logging.getLogger(__name__)

POM = Path(__file__).with_name("pom.xml")
GROUP = "org.apache.spark"
SPARK_ARTIFACTS = ("spark-sql-kafka-0-10_2.13", "spark-token-provider-kafka-0-10_2.13")
ARTIFACTS = ",".join([*SPARK_ARTIFACTS, "kafka-clients", "commons-pool2"])
DOWNLOAD_TIMEOUT_S = 900

_RELEASE = re.compile(r"<version>(\d+\.\d+\.\d+)</version>")
_LOCAL_REPOSITORY = re.compile(r"Using local repository at (.+)")


class JarsMissing(Exception):
    """The connector cannot be had; the message is one line for a person."""


def cache_directory() -> Path:
    checkout = Path(__file__).parents[2]
    if (checkout / "pyproject.toml").is_file():
        return checkout / ".cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "oncelog"


def missing() -> str | None:
    """Says in one line what the connector needs and the machine lacks, or returns None."""
    absent = [command for command in ("java", "mvn") if shutil.which(command) is None]
    if not absent:
        return None
    return f"Spark's Kafka connector needs {' and '.join(absent)}: install a JDK 17 (or later) and Maven"


def installed_spark() -> str:
    from pyspark.version import __version__

    return str(__version__)


def connector_jars(spark_version: str | None = None) -> list[Path]:
    """The connector of the installed Spark, for the setting `spark.jars`; downloaded on first use."""
    version = spark_version or installed_spark()
    directory = cache_directory() / f"spark-{version}"
    stamp = directory / "pom.sha256"
    wanted = hashlib.sha256(POM.read_bytes() + ARTIFACTS.encode()).hexdigest()
    if not _is_stamped(stamp, wanted):
        if (reason := missing()) is not None:
            raise JarsMissing(reason)
        with _locked(directory.with_name(f"spark-{version}.lock")):
            # Another process may have finished the download while this one waited for the lock.
            if not _is_stamped(stamp, wanted):
                _download(directory, version)
                stamp.write_text(wanted)
    return sorted(directory.glob("*.jar"))


def _is_stamped(stamp: Path, wanted: str) -> bool:
    return stamp.is_file() and stamp.read_text() == wanted


def _download(directory: Path, version: str) -> None:
    failure = _copy(directory, version)
    if failure is None:
        return
    available = available_connectors()
    if not available:
        raise JarsMissing(f"Maven could not bring Spark's Kafka connector: {failure}")
    nearest = choose_connector(version, available)
    logger.warning("Maven has no Kafka connector of Spark %s; the one of %s is taken", version, nearest)
    if nearest == version or (failure := _copy(directory, nearest)) is not None:
        raise JarsMissing(f"Maven could not bring the Kafka connector of Spark {nearest}: {failure}")


def choose_connector(version: str, available: list[str]) -> str:
    """The newest connector of the same line."""
    line = version.split(".")[:2]
    fitting = [each for each in available if each.split(".")[:2] == line]
    if not fitting:
        raise JarsMissing(
            f"Maven has no Kafka connector of Spark {version}, only of {', '.join(available)}: install one of these"
            f" (pip install 'pyspark=={available[-1]}'), or read from a source that needs no connector"
        )
    return max(fitting, key=_numbers)


def available_connectors() -> list[str]:
    """The releases of which Maven has all of Spark's own jars; empty where it cannot tell."""
    found = [set(_releases(artifact)) for artifact in SPARK_ARTIFACTS]
    return sorted((each for each in set.intersection(*found) if _numbers(each) >= (4,)), key=_numbers)


def _releases(artifact: str) -> list[str]:
    """Maven's list of versions comes with the newest of them, and stays in its local repository."""
    done = _maven("-X", "dependency:get", f"-Dartifact={GROUP}:{artifact}:RELEASE", "-Dtransitive=false")
    local = _LOCAL_REPOSITORY.search(done.stdout)
    if local is None:
        return []
    lists = Path(local[1].strip(), *GROUP.split("."), artifact).glob("maven-metadata-*.xml")
    return [version for path in lists for version in _RELEASE.findall(path.read_text(encoding="utf-8"))]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _copy(directory: Path, version: str) -> str | None:
    """What went wrong, in a line."""
    shutil.rmtree(directory, ignore_errors=True)
    done = _maven(
        "-q",
        f"-Dspark.version={version}",
        "dependency:copy-dependencies",
        f"-DoutputDirectory={directory}",
        f"-DincludeArtifactIds={ARTIFACTS}",
    )
    if done.returncode == 0:
        return None
    lines = re.sub(r"\x1b\[\d*m", "", done.stdout + done.stderr).strip().splitlines()
    return lines[0] if lines else f"exit code {done.returncode}"


def _maven(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["mvn", "-B", "-f", str(POM), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_TIMEOUT_S, check=False)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
