"""The embedded broker of `oncelog.testing`."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Self

from oncelog.named_tuple import NamedTuple
from oncelog.protocol.addresses import host_and_port
from oncelog.testing.faults import BrokerClock, Faults, RunningBroker

if TYPE_CHECKING:
    from oncelog.testing.process import BrokerProcess

TEST_SETTINGS = {
    "log.flush.on.ack": "false",
    "group.initial.rebalance.delay.ms": "0",
}
"""What tests want: Kafka's own promise of the page cache instead of an fsync, and no waiting for members."""

_ARGUMENT_OF = {"listeners": "host and port", "log.dirs": "data_dir", "log.dir": "data_dir"}


class LoopLag(NamedTuple):
    lag_seconds: float
    computing_seconds: float
    """The part in which the broker itself computed; the rest is the disk, or a machine that has no core to spare."""


class BrokerFailed(Exception):
    """The broker did not start, with what it said."""


class Broker:
    """A broker for the length of a `with` block, or from `start` to `stop`.

    `config` has settings under Kafka's names. With `data_dir`, the data outlives the broker; without it, the data is
    in a temporary directory until the `with` block ends, or until `stop` outside of one. `port` 0 lets the system
    choose; a restart keeps the port.
    """

    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        *,
        subprocess: bool = False,
        data_dir: str | Path | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        for name in _ARGUMENT_OF.keys() & (config or {}).keys():
            raise ValueError(f"{name} is not a setting of a test's broker; give Broker {_ARGUMENT_OF[name]} instead")
        self._config = TEST_SETTINGS | {name: _text(value) for name, value in (config or {}).items()}
        self._subprocess = subprocess
        self._given_directory = Path(data_dir) if data_dir is not None else None
        self._host = host
        self._port = port
        self._entered = False
        self._held = _Held()
        weakref.finalize(self, self._held.release)

    def __enter__(self) -> Self:
        self.start()
        self._entered = True
        return self

    def __exit__(self, *_: object) -> None:
        if not self._held.is_inherited:
            self._entered = False
            self.stop()

    @property
    def bootstrap_servers(self) -> str:
        """Host and port, as clients want them in `bootstrap.servers`."""
        if not self._port:
            raise RuntimeError("the system chooses the port when the broker starts; call start() first, or give a port")
        return host_and_port(self._host, self._port)

    @property
    def data_dir(self) -> Path:
        if self._given_directory is not None:
            return self._given_directory
        return self._held.temporary_directory()

    @property
    def pid(self) -> int:
        """The process that the broker runs in."""
        return self._running_broker().pid

    def start(self) -> None:
        """Start and wait until clients are served. BrokerFailed says why not."""
        held = self._checked_held()
        if held.running is not None:
            if held.running.is_alive:
                raise RuntimeError(f"the broker is already running at {self.bootstrap_servers}; stop() it first")
            held.end()
        has_data = held.directory is not None
        try:
            held.running = self._launch()
        except BaseException:
            if not has_data:
                held.remove_directory()
            raise
        self._port = held.running.port

    def _launch(self) -> RunningBroker:
        settings = self._config | {
            "log.dirs": str(self.data_dir),
            "listeners": f"PLAINTEXT://{host_and_port(self._host, self._port)}",
        }
        if self._subprocess:
            from oncelog.testing.process import BrokerProcess

            return BrokerProcess(settings, temporary=self._given_directory is None)
        from oncelog.testing.thread import BrokerThread

        return BrokerThread(settings)

    def stop(self) -> None:
        """Shut down cleanly. Outside a `with` block, this also removes the temporary directory."""
        held = self._checked_held()
        try:
            held.stop()
        finally:
            if not self._entered:
                held.remove_directory()

    def kill(self) -> None:
        """SIGKILL, as a crash would end it. Only for a broker in a process of its own."""
        self._process("killed").kill()
        self._held.running = None

    def take_loop_lag(self) -> LoopLag:
        """How long at most the broker's event loop was held since the last time this was asked."""
        return LoopLag(*self._running_broker().command("take_loop_lag", {}))

    @property
    def clock(self) -> BrokerClock:
        """The broker's time, which can be advanced: timeouts without waiting."""
        return BrokerClock(self._running_broker)

    @property
    def faults(self) -> Faults:
        """What can go wrong between a client and the broker, on request."""
        return Faults(self._running_broker)

    def wait_for_crash(self) -> None:
        """Wait until an injected crash has ended the broker; then it can be started again."""
        self._process("crashed").wait()
        self._held.running = None

    def restart(self) -> None:
        """Start again on the same data and port, after stopping what still runs."""
        self._checked_held().stop()
        self.start()

    def _process(self, fate: str) -> BrokerProcess:
        from oncelog.testing.process import BrokerProcess

        if not self._subprocess:
            raise RuntimeError(f"this broker runs in your own process; only Broker(subprocess=True) can be {fate}")
        running = self._running_broker()
        assert isinstance(running, BrokerProcess)
        return running

    def _running_broker(self) -> RunningBroker:
        running = self._checked_held().running
        if running is None:
            raise RuntimeError("the broker is not running; call start() first")
        return running

    def _checked_held(self) -> _Held:
        if self._held.is_inherited:
            raise RuntimeError(
                f"this broker belongs to process {self._held.owner_pid}; a forked child can connect to it, but cannot "
                "control it"
            )
        return self._held


class _Held:
    """What a Broker has to give back: at `stop`, or when the object is collected, or when the interpreter exits."""

    def __init__(self) -> None:
        self.owner_pid: int | None = None
        self.directory: Path | None = None
        self._running: RunningBroker | None = None

    @property
    def is_inherited(self) -> bool:
        """Whether this is the copy that a forked child has; what it holds is the parent's."""
        return self.owner_pid not in (None, os.getpid())

    @property
    def running(self) -> RunningBroker | None:
        return self._running

    @running.setter
    def running(self, running: RunningBroker | None) -> None:
        self._running = running
        self.owner_pid = os.getpid()

    def temporary_directory(self) -> Path:
        if self.directory is None:
            self.directory = Path(tempfile.mkdtemp(prefix="oncelog-"))
            self.owner_pid = os.getpid()
        return self.directory

    def stop(self) -> None:
        """End the broker cleanly."""
        running, self._running = self._running, None
        if running is not None:
            running.stop()

    def end(self) -> None:
        """End the broker; nobody wants to know how."""
        running, self._running = self._running, None
        if running is not None:
            running.end()

    def remove_directory(self) -> None:
        directory, self.directory = self.directory, None
        if directory is not None:
            shutil.rmtree(directory, ignore_errors=True)

    def release(self) -> None:
        if not self.is_inherited:
            self.end()
            self.remove_directory()


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
