"""A broker in a thread of this process, on an event loop of its own."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from oncelog.broker.base import event_loop
from oncelog.broker.config.broker_config import Setting
from oncelog.broker.config.load import load_config
from oncelog.testing.controlled import ControlledApp

ANSWER_SECONDS_MAX = 30.0


class BrokerThread:
    can_crash = False

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = settings
        self._started: Future[int] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._app: ControlledApp | None = None
        self._failure: BaseException | None = None
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="oncelog-broker", daemon=True)
        self._thread.start()
        try:
            self.port = self._wait_until_ready()
        except BaseException:
            self.end()
            raise

    @property
    def pid(self) -> int:
        return os.getpid()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        self.end()
        if self._failure is not None:
            raise self._failure

    def end(self) -> None:
        self._ending = True
        if self._loop is not None and self._app is not None:
            # A loop that is closed has nothing left to stop.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._app.stopping.set)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def command(self, name: str, arguments: dict[str, Any]) -> Any:
        """In the broker's own thread."""
        assert self._loop is not None
        assert self._app is not None
        result: Future[Any] = Future()
        app = self._app

        def carry_out() -> None:
            try:
                result.set_result(app.command(name, arguments))
            except Exception as error:
                result.set_exception(error)

        try:
            self._loop.call_soon_threadsafe(carry_out)
        except RuntimeError:
            why = f": {self._failure!r}" if self._failure is not None else ""
            raise RuntimeError(f"the broker has ended by itself{why}; start() it again") from None
        try:
            return result.result(ANSWER_SECONDS_MAX)
        except TimeoutError:
            raise TimeoutError(f"the broker did not answer within {ANSWER_SECONDS_MAX:g} s") from None

    def _wait_until_ready(self) -> int:
        from oncelog.testing.broker import BrokerFailed

        try:
            return self._started.result()
        except Exception as error:
            raise BrokerFailed(str(error)) from error

    def _run(self) -> None:
        try:
            event_loop.run(self._serve())
        except BaseException as error:
            if self._started.done():
                self._failure = error
            else:
                self._started.set_exception(error)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        settings = [Setting(name, value, "the test") for name, value in self._settings.items()]
        self._app = app = ControlledApp(load_config(flags=settings))
        if self._ending:
            # Interrupted before there was an app to tell.
            app.stopping.set()
        await app.start()
        self._started.set_result(next(iter(app.bound.values()))[1])
        await app.stopping.wait()
        await app.stop()
