"""Runs the ETL job as a process of its own and kills parts of it: driver, executor, broker.

The driver's JVM and its Python are one process group and die together. Executors are JVMs of their own when the
master is `local-cluster[...]`. The broker is anything with `kill` and `start`.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from oncelog.client.errors import ClientError
from oncelog.pipeline.config import ConfigError
from oncelog.pipeline.evidence import wait_for_growth, wait_for_open_transaction
from oncelog.protocol.errors import KafkaError

EXECUTOR_CLASS = "CoarseGrainedExecutorBackend"
WAIT_SECONDS_MAX = 600.0
MOMENT_SECONDS_MAX = 3.0
"""A kill comes at a random moment after the output has grown, so that it meets all phases of a batch."""
WRITING_SECONDS_MAX = 60.0
RESTARTS_MAX = 5
"""How often a job that failed is started again before the next kill, or before its end."""


class KillableBroker(Protocol):
    @property
    def bootstrap_servers(self) -> str: ...
    def kill(self) -> None: ...
    def start(self) -> None: ...


def own_broker(kind: str, *, fsync: bool = False) -> contextlib.AbstractContextManager[Any]:
    """A broker for the occasion, in a process of its own."""
    if kind == "apache":
        try:
            from conformance.reference.kafka import ApacheKafka
        except ModuleNotFoundError:
            raise ConfigError("--broker apache needs a checkout of the project, which knows how to start one") from None
        return ApacheKafka()
    from oncelog.testing import Broker

    return Broker(subprocess=True, config={"log.flush.on.ack": str(fsync).lower()})


class Kill(NamedTuple):
    seconds: float
    """On the clock of time.monotonic()."""
    what: str


class EtlProcess:
    """An ETL job that can be killed and started again with the same arguments."""

    def __init__(self, arguments: Sequence[str], log_path: Path) -> None:
        self._command = [sys.executable, "-m", "oncelog.pipeline", "etl", *arguments]
        self.log_path = log_path
        self._process: subprocess.Popen[bytes] | None = None
        self._started: list[int] = []

    def start(self) -> None:
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
        self._started.append(self._process.pid)

    @property
    def exit_code(self) -> int | None:
        assert self._process is not None
        return self._process.poll()

    def kill_driver(self) -> None:
        """SIGKILL to the driver's Python and JVM; executors and their workers live on, and have to notice."""
        import psutil

        assert self._process is not None
        for child in psutil.Process(self._process.pid).children():
            with contextlib.suppress(psutil.Error):
                child.kill()
        self._process.kill()
        self._process.wait()

    def kill_executor(self, chooser: random.Random) -> bool:
        """False if no executor runs in a process of its own, or none any more."""
        try:
            os.kill(chooser.choice(self.executors()), signal.SIGKILL)
        except (IndexError, ProcessLookupError):
            return False
        return True

    def executors(self) -> list[int]:
        import psutil

        assert self._process is not None
        found: list[int] = []
        for child in psutil.Process(self._process.pid).children(recursive=True):
            # A process may end between the look at the list and the look at the process.
            with contextlib.suppress(psutil.Error):
                if any(EXECUTOR_CLASS in part for part in child.cmdline()):
                    found.append(child.pid)
        return found

    def wait(self, seconds_max: float = WAIT_SECONDS_MAX) -> int:
        assert self._process is not None
        return self._process.wait(seconds_max)

    def terminate(self) -> None:
        assert self._process is not None
        self._process.terminate()

    def close(self) -> None:
        """Kills what is left, also executors whose driver is gone: each start has a process group of its own."""
        for pid in self._started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def log(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""


def run_with_kills(
    etl: EtlProcess,
    broker: KillableBroker,
    kills: Sequence[str],
    step: int,
    written: Callable[[], int],
    chooser: random.Random,
    say: Callable[[str], None],
    await_moment: Callable[[], object],
) -> list[Kill]:
    """Runs the job to its end through the kills: each when the output has grown by `step` and the moment has come.

    Returns the kills that took place; a job that is through before its time comes is not killed.
    """
    killer = _Killer(etl, broker, written, chooser, await_moment)
    done: list[Kill] = []
    etl.start()
    for kill in kills:
        moment = killer.kill(kill, written() + step)
        if moment is None:
            break
        say(f"kill: {kill}")
        done.append(Kill(moment, kill))
    # A query may fail while its broker is away for long; whoever runs it starts it again.
    for _ in range(RESTARTS_MAX):
        if etl.wait() == 0:
            return done
        say("the job ended with an error and is started again")
        etl.start()
    raise _fails_always(etl)


def kill_each(
    etl: EtlProcess,
    broker: KillableBroker,
    kills: Sequence[str],
    feed: Callable[[], int],
    written: Callable[[], int],
    chooser: random.Random,
    await_moment: Callable[[], object],
) -> list[Kill]:
    """Kills a job that runs for ever: each time after `feed` gave it work, and when the moment has come.

    `feed` returns by how much the output has to grow before that.
    """
    killer = _Killer(etl, broker, written, chooser, await_moment)
    done: list[Kill] = []
    for kill in kills:
        # The job may write all that it is fed before anyone looks again.
        before = written()
        moment = killer.kill(kill, before + feed())
        if moment is None:
            raise RuntimeError(f"the job ended on its own; its log ends with:\n{_tail(etl)}")
        done.append(Kill(moment, kill))
    return done


class _Killer(NamedTuple):
    etl: EtlProcess
    broker: KillableBroker
    written: Callable[[], int]
    chooser: random.Random
    await_moment: Callable[[], object]

    def kill(self, what: str, target: int) -> float | None:
        """When it was killed; None if the job was through before. A job that failed meanwhile is started again."""
        failures = 0
        while (moment := self._try(what, target)) is None:
            code = self.etl.exit_code
            if code == 0:
                return None
            if code is not None:
                failures += 1
                if failures > RESTARTS_MAX:
                    raise _fails_always(self.etl)
                self.etl.start()
        return moment

    def _try(self, what: str, target: int) -> float | None:
        """None if the job ended before the output has reached the target, or there was nothing to kill."""
        etl = self.etl
        if not wait_until(lambda: etl.exit_code is not None or self.written() >= target):
            raise TimeoutError(f"the job makes no progress; its log ends with:\n{_tail(etl)}")
        # A dead executor is replaced after a while.
        if not wait_until(lambda: etl.exit_code is not None or what != "executor" or bool(etl.executors())):
            raise TimeoutError(f"the job has no executor to kill; its log ends with:\n{_tail(etl)}")
        if etl.exit_code is None:
            self.await_moment()
        moment = time.monotonic()
        return moment if etl.exit_code is None and _kill(etl, self.broker, what, self.chooser) else None


def _fails_always(etl: EtlProcess) -> RuntimeError:
    return RuntimeError(f"the job fails again and again; its log ends with:\n{_tail(etl)}")


def _tail(etl: EtlProcess) -> str:
    return etl.log()[-3000:]


def _kill(etl: EtlProcess, broker: KillableBroker, what: str, chooser: random.Random) -> bool:
    """False if there is nothing to kill at this moment."""
    if what == "executor":
        return etl.kill_executor(chooser)
    if what == "driver":
        etl.kill_driver()
        etl.start()
    else:
        broker.kill()
        broker.start()
    return True


def random_moment(chooser: random.Random, seconds_max: float) -> Callable[[], object]:
    return lambda: time.sleep(chooser.uniform(0, seconds_max))


def moment_of_writing(etl: EtlProcess, bootstrap: str, topic: str, sink: str) -> Callable[[], object]:
    """When records of an unfinished batch are in the topic, or after WRITING_SECONDS_MAX if none were seen.

    A kill then leaves a batch that must never be seen; or, with Spark's own sink, one that is written twice.
    """
    wait = wait_for_open_transaction if sink == "exactly-once" else wait_for_growth

    def await_moment() -> None:
        # A broker that does not answer is about as good a moment.
        with contextlib.suppress(ClientError, KafkaError):
            wait(bootstrap, topic, WRITING_SECONDS_MAX, lambda: etl.exit_code is not None)

    return await_moment


def wait_until(condition: Callable[[], bool], seconds_max: float = WAIT_SECONDS_MAX) -> bool:
    deadline = time.monotonic() + seconds_max
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True
