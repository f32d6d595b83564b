"""What was measured on what: cores, memory, versions."""

from __future__ import annotations

import os
import platform
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import confluent_kafka

from conformance.reference.jars import KAFKA_VERSION


def describe() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "processor": _processor(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_version()} (of {platform.python_build()[1]}, {platform.python_compiler()})",
        "apache_kafka": KAFKA_VERSION,
        "confluent_kafka": f"{confluent_kafka.version()} (librdkafka {confluent_kafka.libversion()[0]})",
        "oncelog": _commit(),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _commit() -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "unknown"


def have_memory_at_hand(size_bytes: int) -> None:
    """Writes so much into a file and removes it, so that the memory for the next file is there.

    Virtual machines may give free memory back to their host. To get it again takes ten times as long as to write to it,
    and what is measured then is the host, or which peer has freed how much before.
    """
    chunk = bytes(1 << 20)
    with tempfile.TemporaryFile(buffering=0) as file:
        for _ in range(-(-size_bytes // len(chunk))):
            file.write(chunk)
