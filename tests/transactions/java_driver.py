"""Kafka's own producer in a JVM, driven by lines."""

from __future__ import annotations

import subprocess
from pathlib import Path

from conformance.reference.tools import java_command


class JavaFailure(Exception):
    """What the client threw, by the name of its class."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name


class JavaDriver:
    def __init__(self) -> None:
        command = java_command(str(Path(__file__).with_name("TransactionDriver.java")))
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def tell(self, *words: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join(str(word) for word in words) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().rstrip("\n").split("\t")
        if answer != ["ok"]:
            assert answer[0] == "error", f"the driver has ended: {answer}"
            raise JavaFailure(answer[1], answer[2])

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
