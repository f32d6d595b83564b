"""A broker in a process of its own."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from oncelog.broker.config.load import KAFKA_PREFIX, ONCELOG_PREFIX

_READY = re.compile(r"listening on \S+:(\d+),")
_STOP_SECONDS_MAX = 30


class BrokerProcess:
    def __init__(self, settings: Mapping[str, str]) -> None:
        self._control, theirs = socket.socketpair()
        descriptor = theirs.fileno()
        command = [sys.executable, "-m", "oncelog.testing.server", str(descriptor), "--log-level", "warning"]
        for name, value in settings.items():
            command += ("-o", f"{name}={value}")
        with theirs:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=None,
                text=True,
                pass_fds=(descriptor,),
                env=_environment(),
            )
        try:
            self.port = self._wait_until_ready()
        except BaseException:
            self.kill()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise
        finally:
            self._close_output()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._close_output()

    def _wait_until_ready(self) -> int:
        from oncelog.testing.broker import BrokerFailed

        assert self._process.stdout is not None
        port = None
        for line in self._process.stdout:
            found = _READY.search(line)
            if found:
                port = int(found[1])
            if port is not None and "started" in line:
                return port
        raise BrokerFailed(f"oncelog serve ended with exit code {self._process.wait()}; see its output")

    def command(self, name: str, arguments: dict[str, Any]) -> Any:
        """Have the broker do something, and wait for the result."""
        self._control.sendall(json.dumps({"name": name, "arguments": arguments}).encode() + b"\n")
        answer = b""
        while not answer.endswith(b"\n"):
            received = self._control.recv(65536)
            if not received:
                raise ConnectionError("the broker is gone")
            answer += received
        return json.loads(answer)

    def wait(self) -> None:
        """Until it has ended by itself, as by an injected crash."""
        self._process.wait(_STOP_SECONDS_MAX)
        self._close_output()

    def _close_output(self) -> None:
        self._control.close()
        if self._process.stdout is not None:
            self._process.stdout.close()


def _environment() -> dict[str, str]:
    """Without settings: a test's broker has those of the test, as one in a thread has."""
    return {name: value for name, value in os.environ.items() if not name.startswith((KAFKA_PREFIX, ONCELOG_PREFIX))}
