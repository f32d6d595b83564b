"""The embedded broker of `oncelog.testing`."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from oncelog.testing.faults import BrokerClock, Faults

if TYPE_CHECKING:
    from oncelog.testing.process import BrokerProcess
    from oncelog.testing.thread import BrokerThread

TEST_SETTINGS = {
    "log.flush.on.ack": "false",
    "group.initial.rebalance.delay.ms": "0",
}
"""What tests want: Kafka's own promise of the page cache instead of an fsync, and no waiting for members."""


class BrokerFailed(Exception):
    """The broker did not start, with what it said."""


class Broker:
    """A broker for the length of a `with` block, or from `start` to `stop`.

    `config` has settings under Kafka's names. With `data_dir`, the data outlives the broker. `port` 0 lets the
    system choose; a restart keeps the port.
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
        self._config = TEST_SETTINGS | {name: _text(value) for name, value in (config or {}).items()}
        self._subprocess = subprocess
        self._given_directory = Path(data_dir) if data_dir is not None else None
        self._directory: Path | None = None
        self._host = host
        self._port = port
        self._running: BrokerProcess | BrokerThread | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        if self._directory is not None and self._given_directory is None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    @property
    def bootstrap_servers(self) -> str:
        """Host and port, as clients want them in `bootstrap.servers`."""
        return f"{self._host}:{self._port}"

    @property
    def data_dir(self) -> Path:
        if self._directory is None:
            self._directory = self._given_directory or Path(tempfile.mkdtemp(prefix="oncelog-"))
        return self._directory

    @property
    def pid(self) -> int:
        """The process that the broker runs in."""
        assert self._running is not None, "the broker is not running"
        return self._running.pid

    def start(self) -> None:
        """Start and wait until clients are served. BrokerFailed says why not."""
        assert self._running is None, "the broker is running already"
        settings = self._config | {
            "log.dirs": str(self.data_dir),
            "listeners": f"PLAINTEXT://{self._host}:{self._port}",
        }
        if self._subprocess:
            from oncelog.testing.process import BrokerProcess

            self._running = BrokerProcess(settings)
        else:
            from oncelog.testing.thread import BrokerThread

            self._running = BrokerThread(settings)
        self._port = self._running.port

    def stop(self) -> None:
        """Shut down cleanly; the data stays until the `with` block ends."""
        running, self._running = self._running, None
        if running is not None:
            running.stop()

    def kill(self) -> None:
        """SIGKILL, as a crash would end it. Only for a broker in a process of its own."""
        self._take_process("killed").kill()

    @property
    def clock(self) -> BrokerClock:
        """The broker's time, which can be advanced: timeouts without waiting."""
        return BrokerClock(self._command)

    @property
    def faults(self) -> Faults:
        """What can go wrong between a client and the broker, on request."""
        return Faults(self._command)

    def wait_for_crash(self) -> None:
        """Until an injected crash has ended the broker; then it can be started again."""
        self._take_process("crashed").wait()

    def restart(self) -> None:
        """Start again on the same data and port, after stopping what still runs."""
        self.stop()
        self.start()

    def _take_process(self, fate: str) -> BrokerProcess:
        """The process, which from then on is nobody's."""
        from oncelog.testing.process import BrokerProcess

        running = self._running
        if not isinstance(running, BrokerProcess):
            raise RuntimeError(f"only a Broker(subprocess=True) that runs can be {fate}")
        self._running = None
        return running

    def _command(self, name: str, arguments: dict[str, Any]) -> Any:
        assert self._running is not None, "the broker is not running"
        if str(arguments.get("action")).startswith("crash") and not self._subprocess:
            raise ValueError("only Broker(subprocess=True) can crash: this one is in your own process")
        return self._running.command(name, arguments)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
