"""A broker in a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Mapping
from typing import Any

from oncelog.broker.config.environment import is_for_broker

_READY = re.compile(r"listening on \S+:(\d+),")
END_SECONDS_MAX = 30.0
ANSWER_SECONDS_MAX = 30.0

_started: weakref.WeakSet[BrokerProcess] = weakref.WeakSet()


class BrokerProcess:
    can_crash = True

    def __init__(self, settings: Mapping[str, str], *, temporary: bool) -> None:
        """With `temporary`, the broker removes its directory if this process ends without stopping it."""
        self._control, theirs = socket.socketpair()
        self._command_count = 0
        self._received = b""
        command = [sys.executable, "-m", "oncelog.testing.server", str(theirs.fileno())]
        command.append("temporary" if temporary else "kept")
        command += ["--log-level", "warning"]
        for name, value in settings.items():
            command += ("-o", f"{name}={value}")
        with theirs:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=None,
                text=True,
                pass_fds=(theirs.fileno(),),
                env=_environment(),
            )
        _started.add(self)
        try:
            self.port = self._wait_until_ready()
        except BaseException:
            self.kill()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"the broker did not stop within {END_SECONDS_MAX:g} s, so it was killed") from None
        finally:
            self.kill()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._close()

    def end(self) -> None:
        self.kill()

    def wait(self) -> None:
        """Until it has ended by itself, as by an injected crash."""
        try:
            self._process.wait(END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"the broker still runs after {END_SECONDS_MAX:g} s; no request hit the fault") from None
        self._close()

    def command(self, name: str, arguments: dict[str, Any]) -> Any:
        self._command_count += 1
        number = self._command_count
        request = json.dumps({"id": number, "name": name, "arguments": arguments})
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        try:
            self._control.sendall(request.encode() + b"\n")
            answer = self._read_answer(deadline)
            while answer["id"] < number:
                # It belongs to a command that was given up.
                answer = self._read_answer(deadline)
        except TimeoutError:
            raise TimeoutError(f"the broker (pid {self.pid}) did not answer within {ANSWER_SECONDS_MAX:g} s") from None
        except (ConnectionError, EOFError):
            raise RuntimeError(f"the broker has ended: {self._how_it_ended()}; start() it again") from None
        if "error" in answer:
            raise RuntimeError(f"the broker could not carry out {name}: {answer['error']}")
        return answer["result"]

    def _read_answer(self, deadline: float) -> dict[str, Any]:
        while b"\n" not in self._received:
            self._control.settimeout(max(0.001, deadline - time.monotonic()))
            received = self._control.recv(65536)
            if not received:
                raise EOFError
            self._received += received
        line, _, self._received = self._received.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _how_it_ended(self) -> str:
        try:
            code = self._process.wait(END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            return "it closed its control channel"
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

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

    def close_in_child(self) -> None:
        """A forked child that kept the control channel open would keep the broker alive after the parent."""
        self._control.close()

    def _close(self) -> None:
        self._control.close()
        if self._process.stdout is not None:
            self._process.stdout.close()


def _close_all_in_child() -> None:
    for process in _started:
        process.close_in_child()


os.register_at_fork(after_in_child=_close_all_in_child)


def _environment() -> dict[str, str]:
    """Without settings: a test's broker has those of the test, as one in a thread has."""
    return {name: value for name, value in os.environ.items() if not is_for_broker(name)}
