"""A broker in a thread of the test, whose inside the test can see, with a disk of the test's choice."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

from oncelog.broker.app import BrokerApp
from oncelog.broker.base import event_loop
from oncelog.broker.config.broker_config import Setting
from oncelog.broker.config.load import load_config
from oncelog.broker.log.disk import Disk
from oncelog.broker.replica.partition import Partition

T = TypeVar("T")


class LiveBroker:
    def __init__(self, data_dir: Path, config: Mapping[str, str] | None = None, disk: Disk | None = None) -> None:
        self.data_dir = data_dir
        self._config = {
            "log.flush.on.ack": "false",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(data_dir),
            **(config or {}),
        }
        self._disk = disk
        self._started: Future[int] = Future()
        self._ended: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name="live-broker", daemon=True)
        self._thread.start()
        self.port = self._started.result(30)

    def stop(self) -> None:
        """Shut down cleanly; the second time, nothing is left to do."""
        if not self._ended.done():
            self.loop.call_soon_threadsafe(self.app.stopping.set)
        self._thread.join(30)
        self._ended.result(0)

    def on_loop(self, function: Callable[[], T]) -> T:
        """The function's result, computed on the broker's own thread."""
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(function())
            except BaseException as error:
                done.set_exception(error)

        self.loop.call_soon_threadsafe(run)
        return done.result(30)

    def partition(self, topic: str, index: int = 0) -> Partition:
        return self.on_loop(lambda: self.app.services.partitions.leader(topic, index))

    def _run(self) -> None:
        try:
            event_loop.run(self._serve())
        except BaseException as error:
            (self._ended if self._started.done() else self._started).set_exception(error)
        else:
            self._ended.set_result(None)

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        settings = [Setting(name, value, "the test") for name, value in self._config.items()]
        self.app = BrokerApp(load_config(flags=settings), disk=self._disk)
        await self.app.start()
        self._started.set_result(next(iter(self.app.advertised.values()))[1])
        await self.app.stopping.wait()
        await self.app.stop()
