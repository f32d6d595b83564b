"""The brokers under measurement, each a process of its own with a data directory of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from conformance.reference.kafka import ApacheKafka

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class Broker(NamedTuple):
    name: str
    bootstrap_servers: str
    pid: int

    def cpu_seconds(self) -> float:
        """User and system time of the process so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND

    def rss_bytes(self) -> int:
        status = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found
        return int(found[1]) * 1024


@contextmanager
def apache_kafka() -> Iterator[Broker]:
    """Its default settings, with the heap that its own start script gives it and the JIT unrestricted."""
    with ApacheKafka(heap="1g", jvm_options=("-XX:+UseG1GC",)) as kafka:
        yield Broker("apache", kafka.bootstrap_servers, kafka.pid)


@contextmanager
def oncelog(*, flush_on_ack: bool) -> Iterator[Broker]:
    name = "oncelog fsync" if flush_on_ack else "oncelog"
    with tempfile.TemporaryDirectory(prefix="oncelog-bench-") as directory:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "oncelog", "serve", "--data", directory, "--listen", "127.0.0.1:0"),
                *("-o", f"log.flush.on.ack={str(flush_on_ack).lower()}"),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            for line in process.stdout:
                found = re.search(r"listening on (\S+:\d+)", line)
                if found:
                    yield Broker(name, found[1], process.pid)
                    break
            else:
                raise RuntimeError("oncelog did not start")
        finally:
            process.terminate()
            process.wait()
