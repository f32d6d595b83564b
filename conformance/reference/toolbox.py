"""Kafka's command-line tools in a JVM that stays: one takes longer to start than most tools to run."""

from __future__ import annotations

import subprocess
import threading
from base64 import b64decode, b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Self

from conformance.reference.tools import TOOL_TIMEOUT_S, TOOLS, compiled, java_command

if TYPE_CHECKING:
    from types import TracebackType


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
        self.close()

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def run(
        self, tool: str, *args: str, stdin: str | None = None, timeout: float = TOOL_TIMEOUT_S
    ) -> subprocess.CompletedProcess[str]:
        """As `run_tool` does, whose face it has. A tool that takes too long ends the JVM."""
        line = "\t".join(b64encode(word.encode()).decode() for word in (TOOLS[tool], stdin or "", *args))
        with self._lock:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            limit = threading.Timer(timeout, self._process.kill)
            limit.start()
            try:
                self._process.stdin.write(line + "\n")
                self._process.stdin.flush()
                answer = self._process.stdout.readline()
            finally:
                limit.cancel()
        if not answer:
            raise RuntimeError(f"{tool} {' '.join(args)}: the JVM has ended, or took longer than {timeout:.0f} s")
        code, out, err = answer.rstrip("\n").split("\t")
        return subprocess.CompletedProcess(args, int(code), b64decode(out).decode(), b64decode(err).decode())
