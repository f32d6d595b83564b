"""What a process has used so far, read from outside it: CPU seconds and memory."""

from __future__ import annotations

import re
import time
from pathlib import Path

# Linux makes a clock id out of a process id: its bits inverted, above three bits that choose the kind of clock.
_KIND_BITS, _CPU_TIME_OF_ALL_THREADS = 3, 2


def cpu_seconds(pid: int) -> float:
    """User and system time of all threads, ended ones too: what /proc/PID/stat tells, but not cut to 10 ms."""
    return time.clock_gettime((~pid << _KIND_BITS) | _CPU_TIME_OF_ALL_THREADS)


def rss_megabytes(pid: int) -> float:
    return _status_megabytes(pid, "VmRSS")


def peak_rss_megabytes(pid: int) -> float:
    return _status_megabytes(pid, "VmHWM")


def _status_megabytes(pid: int, field: str) -> float:
    found = re.search(rf"{field}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found, f"process {pid} has no {field}: it has ended"
    return int(found[1]) * 1024 / 1e6
