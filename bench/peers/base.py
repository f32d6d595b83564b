"""A peer: a broker in a process of its own, with a data directory of its own, that can be started and killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path

from bench import process
from bench.clients.wire import is_ready
from conformance.reference import processes
from conformance.reference.ports import free_ports

READY_TIMEOUT_S = 240.0
STOP_TIMEOUT_S = 60.0
_REMOVAL_TIMEOUT_S = 10.0
_LAST_WORDS = 600


class Peer(ABC):
    """`start` returns when the broker has answered a Metadata request; the data stays until `close`."""

    name: str
    # A peer that knows no CreateTopics reads the number of partitions from the end of the topic's name.
    creates_topics = True
    # A JVM compiles what it does often: it needs thousands of requests of a kind until it is as fast as it gets.
    compiles_itself = False

    @property
    @abstractmethod
    def bootstrap_servers(self) -> str: ...

    @property
    @abstractmethod
    def pid(self) -> int: ...

    @property
    @abstractmethod
    def is_running(self) -> bool: ...

    def format(self) -> None:
        """What must precede the very first start and is no part of its time."""
        return

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def stop(self) -> None:
        """As SIGTERM does."""

    @abstractmethod
    def kill(self) -> None:
        """As a crash does."""

    @abstractmethod
    def close(self) -> None:
        """Stops the broker and removes its data."""

    def last_words(self) -> str:
        """The end of what it printed, if that is kept."""
        return ""

    def forget_topic(self, name: str) -> None:
        """For a peer that knows no DeleteTopics."""
        raise NotImplementedError(f"{self.name} deletes topics when it is asked to")

    @property
    def log_directory(self) -> Path | None:
        """Where it keeps its logs, if that is on disk."""
        return None

    def settle(self) -> None:
        """Waits until what it was told to delete is gone and all else is on disk, or others would be charged for it."""
        directory = self.log_directory
        deadline = time.monotonic() + _REMOVAL_TIMEOUT_S
        while directory is not None and any(directory.glob("*-delete")) and time.monotonic() < deadline:
            time.sleep(0.02)
        os.sync()

    def pause(self) -> None:
        """Has no time of the processors until `resume`; it can be killed all the same."""
        if self.is_running:
            os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        if self.is_running:
            os.kill(self.pid, signal.SIGCONT)

    def cpu_seconds(self) -> float:
        return process.cpu_seconds(self.pid)

    def rss_megabytes(self) -> float:
        return process.rss_megabytes(self.pid)

    def peak_rss_megabytes(self) -> float:
        return process.peak_rss_megabytes(self.pid)


class CommandPeer(Peer):
    """A peer that is one command with a port and a directory."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.settings = dict(settings)
        self.directory = Path(tempfile.mkdtemp(prefix=f"bench-{self.name}-"))
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def command(self, port: int) -> list[str]: ...

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} is not running"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        if not self._port:
            (self._port,) = free_ports(1)
        self.directory.mkdir(exist_ok=True)
        with (self.directory / "output").open("wb") as output:
            self._process = subprocess.Popen(
                self.command(self._port), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )
        wait_until_ready(self)

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            processes.stop(process, STOP_TIMEOUT_S)

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            processes.kill(process)

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def last_words(self) -> str:
        output = self.directory / "output"
        return output.read_text(errors="replace")[-_LAST_WORDS:] if output.exists() else ""


def wait_until_ready(peer: CommandPeer, timeout_s: float = READY_TIMEOUT_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not is_ready(peer.bootstrap_servers):
        if not peer.is_running:
            raise RuntimeError(f"{peer.name} ended at its start:\n{peer.last_words()}")
        if time.monotonic() > deadline:
            raise RuntimeError(f"{peer.name} was not ready within {timeout_s:.0f} s:\n{peer.last_words()}")
        time.sleep(0.002)
