"""A broker in a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping

_READY = re.compile(r"listening on \S+:(\d+),")
_STOP_SECONDS_MAX = 30


class BrokerProcess:
    def __init__(self, settings: Mapping[str, str]) -> None:
        command = [sys.executable, "-m", "oncelog", "serve"]
        for name, value in settings.items():
            command += ("-o", f"{name}={value}")
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=None, text=True
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

    def _close_output(self) -> None:
        if self._process.stdout is not None:
            self._process.stdout.close()
