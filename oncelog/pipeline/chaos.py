"""Runs a Spark job as a process of its own and kills parts of it: driver, executor, broker.

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
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from oncelog.pipeline.config import ConfigError
from oncelog.pipeline.moments import Moment

EXECUTOR_CLASS = "CoarseGrainedExecutorBackend"
WAIT_SECONDS_MAX = 600.0
AIM_SECONDS_MAX = 60.0
"""After that, a kill no longer waits for an open transaction."""
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
    transaction: str | None = None
    """The open transaction that it met, as the broker described it."""

    @property
    def words(self) -> str:
        return f"within a transaction ({self.transaction})" if self.transaction else "outside of any transaction"


class JobProcess:
    """A Spark job that can be killed and started again with the same command."""

    def __init__(self, command: Sequence[str], log_path: Path, executor_parents: Sequence[int] = ()) -> None:
        """Executors are descendants of the driver, or of the workers of a standalone cluster."""
        self._command = list(command)
        self.log_path = log_path
        self._executor_parents = executor_parents
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
    def pid(self) -> int:
        return self._started[-1]

    @property
    def exit_code(self) -> int | None:
        assert self._process is not None
        return self._process.poll()

    def kill_driver(self) -> None:
        """SIGKILL to the driver's Python and JVM; executors and their workers live on, and have to notice."""
        assert self._process is not None
        self._signal_driver(signal.SIGKILL)
        self._process.wait()

    @contextlib.contextmanager
    def paused(self) -> Iterator[bool]:
        """Nothing is begun or ended by the driver meanwhile. False if it has ended already."""
        process = self._process
        assert process is not None
        self._signal_driver(signal.SIGSTOP)
        try:
            # A signal takes a moment to arrive.
            wait_until(lambda: process.poll() is not None or self._is_stopped(), interval_seconds=0.001)
            yield process.poll() is None
        finally:
            if process.poll() is None:
                self._signal_driver(signal.SIGCONT)

    def _signal_driver(self, number: signal.Signals) -> None:
        import psutil

        for each in self._driver():
            with contextlib.suppress(psutil.Error):
                each.send_signal(number)

    def _is_stopped(self) -> bool:
        import psutil

        with contextlib.suppress(psutil.NoSuchProcess):
            return all(each.status() in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE) for each in self._driver())
        return False

    def _driver(self) -> list[Any]:
        """Its Python and its JVM: one of them has started the other."""
        import psutil

        assert self._process is not None
        with contextlib.suppress(psutil.Error):
            driver = psutil.Process(self._process.pid)
            return [*driver.children(), driver]
        return []

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
        for parent in self._executor_parents or [self._process.pid]:
            for child in psutil.Process(parent).children(recursive=True):
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


class EtlProcess(JobProcess):
    """The ETL job of this package, without spark-submit."""

    def __init__(self, arguments: Sequence[str], log_path: Path) -> None:
        super().__init__([sys.executable, "-m", "oncelog.pipeline", "etl", *arguments], log_path)


def run_with_kills(
    etl: JobProcess,
    broker: KillableBroker,
    kills: Sequence[str],
    step: int,
    written: Callable[[], int],
    chooser: random.Random,
    say: Callable[[str], None],
    moment: Moment,
) -> list[Kill]:
    """Runs the job to its end through the kills: each when the output has grown by `step` and the moment has come.

    Returns the kills that took place; a job that is through before its time comes is not killed.
    """
    killer = _Killer(etl, broker, written, chooser, moment)
    done: list[Kill] = []
    etl.start()
    for what in kills:
        kill = killer.kill(what, written() + step)
        if kill is None:
            break
        say(f"kill: {kill.what}, {kill.words}")
        done.append(kill)
    # A query may fail while its broker is away for long; whoever runs it starts it again.
    for _ in range(RESTARTS_MAX):
        if etl.wait() == 0:
            return done
        say("the job ended with an error and is started again")
        etl.start()
    raise _fails_always(etl)


def kill_each(
    etl: JobProcess,
    broker: KillableBroker,
    kills: Sequence[str],
    feed: Callable[[], int],
    written: Callable[[], int],
    chooser: random.Random,
    moment: Moment,
) -> list[Kill]:
    """Kills a job that runs for ever: each time after `feed` gave it work, and when the moment has come.

    `feed` returns by how much the output has to grow before that.
    """
    killer = _Killer(etl, broker, written, chooser, moment)
    done: list[Kill] = []
    for what in kills:
        # The job may write all that it is fed before anyone looks again.
        before = written()
        kill = killer.kill(what, before + feed())
        if kill is None:
            raise RuntimeError(f"the job ended on its own; its log ends with:\n{_tail(etl)}")
        done.append(kill)
    return done


class _Killer(NamedTuple):
    etl: JobProcess
    broker: KillableBroker
    written: Callable[[], int]
    chooser: random.Random
    moment: Moment

    def kill(self, what: str, target: int) -> Kill | None:
        """None if the job was through before. A job that failed meanwhile is started again."""
        failures = 0
        while (done := self._try(what, target)) is None:
            code = self.etl.exit_code
            if code == 0:
                return None
            if code is not None:
                failures += 1
                if failures > RESTARTS_MAX:
                    raise _fails_always(self.etl)
                self.etl.start()
        return done

    def _try(self, what: str, target: int) -> Kill | None:
        """None if the job ended before the output has reached the target, or there was nothing to kill."""
        etl = self.etl
        # A fast job must not be through with the rest of its work before anyone looks again.
        if not wait_until(lambda: etl.exit_code is not None or self.written() >= target, interval_seconds=0.02):
            raise TimeoutError(f"the job makes no progress; its log ends with:\n{_tail(etl)}")
        # A dead executor is replaced after a while.
        if not wait_until(lambda: etl.exit_code is not None or what != "executor" or bool(etl.executors())):
            raise TimeoutError(f"the job has no executor to kill; its log ends with:\n{_tail(etl)}")
        deadline = time.monotonic() + AIM_SECONDS_MAX
        done = None
        while done is None and etl.exit_code is None:
            self.moment.wait(lambda: etl.exit_code is not None)
            done = self._shoot(what, must_meet=self.moment.is_aimed and time.monotonic() < deadline)
        if done is not None and what == "driver":
            etl.start()
        elif done is not None and what == "broker":
            self.broker.start()
        return done

    def _shoot(self, what: str, *, must_meet: bool) -> Kill | None:
        """None if the kill would meet no open transaction although it has to, or there is nothing to kill."""
        with self.etl.paused() as is_alive:
            met = self.moment.open_transaction() if is_alive else None
            if not is_alive or (must_meet and met is None):
                return None
            moment = time.monotonic()
            return Kill(moment, what, met) if _kill(self.etl, self.broker, what, self.chooser) else None


def _fails_always(etl: JobProcess) -> RuntimeError:
    return RuntimeError(f"the job fails again and again; its log ends with:\n{_tail(etl)}")


def _tail(etl: JobProcess) -> str:
    return etl.log()[-3000:]


def _kill(etl: JobProcess, broker: KillableBroker, what: str, chooser: random.Random) -> bool:
    """False if there is nothing to kill at this moment."""
    if what == "executor":
        return etl.kill_executor(chooser)
    if what == "driver":
        etl.kill_driver()
    else:
        broker.kill()
    return True


def wait_until(
    condition: Callable[[], bool], seconds_max: float = WAIT_SECONDS_MAX, interval_seconds: float = 0.2
) -> bool:
    deadline = time.monotonic() + seconds_max
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(interval_seconds)
    return True
