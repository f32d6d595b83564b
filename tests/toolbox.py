"""Kafka's command-line tools in a JVM that stays: one takes longer to start than most tools to run."""

from __future__ import annotations

import subprocess
import threading
from base64 import b64decode, b64encode
from pathlib import Path
from types import TracebackType
from typing import Self

from conformance.reference.tools import TOOLS, compiled, java_command


class Toolbox:
    """Runs one tool at a time, by its name in Kafka's `bin/`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        jar = compiled(Path(__file__).with_name("Toolbox.java"))
        self._process = subprocess.Popen(
            java_command("Toolbox", more_jars=[jar]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()

    def run(self, tool: str, *args: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """As `run_tool` does, whose face it has."""
        line = "\t".join(b64encode(word.encode()).decode() for word in (TOOLS[tool], stdin or "", *args))
        with self._lock:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        assert answer, "the JVM has ended"
        code, out, err = answer.rstrip("\n").split("\t")
        return subprocess.CompletedProcess(args, int(code), b64decode(out).decode(), b64decode(err).decode())
