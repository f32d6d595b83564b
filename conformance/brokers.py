"""Opens the broker that the command line names: `apache`, `oncelog`, or HOST:PORT of one that runs."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from conformance.reference.kafka import ApacheKafka

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

APACHE = "apache"
ONCELOG = "oncelog"
STOP_TIMEOUT_S = 30.0
_ADDRESS = re.compile(r"\b127\.0\.0\.1:\d+\b")


def open_broker(name: str) -> AbstractContextManager[str]:
    """Yields the bootstrap address."""
    if name == APACHE:
        return _apache()
    if name == ONCELOG:
        return _oncelog()
    return _running(name)


@contextmanager
def _apache() -> Iterator[str]:
    with ApacheKafka() as kafka:
        yield kafka.bootstrap_servers


@contextmanager
def _running(address: str) -> Iterator[str]:
    yield address


@contextmanager
def _oncelog() -> Iterator[str]:
    program = Path(sys.executable).with_name("oncelog")
    with tempfile.TemporaryDirectory(prefix="oncelog-") as directory:
        command = [str(program), "serve", "--data", directory, "--listen", "127.0.0.1:0"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        assert process.stdout is not None
        try:
            yield _read_address(process.stdout)
        finally:
            process.terminate()
            process.wait(STOP_TIMEOUT_S)
            process.stdout.close()


def _read_address(stdout: IO[str]) -> str:
    for line in stdout:
        if (found := _ADDRESS.search(line)) is not None:
            return found[0]
    raise RuntimeError("oncelog ended before it said where it listens")
