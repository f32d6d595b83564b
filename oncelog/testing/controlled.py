"""The broker of tests: it does what its test says, which no other broker can be made to do.

A broker in the test's own process is told directly. One in a process of its own is told through a socket that it
inherits from the test, so that nobody else can reach it: a line of JSON with an id, a name and arguments, answered
by a line with the id and the result or the error. When the test's process ends, however it ends, the socket is
closed, and the broker stops.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from typing import TYPE_CHECKING, Any

from oncelog.broker.app import BrokerApp
from oncelog.testing.fault_injector import ArmedFault, FaultInjector
from oncelog.testing.faults import FaultPlan

if TYPE_CHECKING:
    from oncelog.broker.config.broker_config import BrokerConfig
    from oncelog.broker.server.interceptors import Interceptor

logger = logging.getLogger(__name__)


class ControlledApp(BrokerApp):
    def __init__(self, config: BrokerConfig, control: socket.socket | None = None) -> None:
        super().__init__(config)
        self._control = control
        self._received = b""
        self._faults: list[ArmedFault] = []
        self._numbered: list[ArmedFault] = []
        self.is_orphaned = False
        """The test's process has ended and left this broker behind."""

    async def start(self) -> None:
        await super().start()
        if self._control is not None:
            self._control.setblocking(False)
            asyncio.get_running_loop().add_reader(self._control, self._read_commands)

    def interceptors(self) -> list[Interceptor]:
        return [FaultInjector(self._faults), *super().interceptors()]

    def command(self, name: str, arguments: dict[str, Any]) -> Any:
        """To be called in the broker's event loop."""
        return getattr(self, f"_{name}")(**arguments)

    def _advance_clock(self, duration_ms: int) -> None:
        self._clock.advance(duration_ms)

    def _take_loop_lag(self) -> tuple[float, float]:
        """The longest that the event loop was held since the last question, in seconds, and that it computed."""
        watch = self.loop_watch
        taken = watch.lag_seconds_max, watch.computing_seconds_max
        watch.lag_seconds_max = watch.computing_seconds_max = 0.0
        return taken

    def _inject_fault(self, **plan: Any) -> int:
        fault = ArmedFault(FaultPlan(**plan))
        self._faults.append(fault)
        self._numbered.append(fault)
        self.dispatcher.reload()
        return len(self._numbered) - 1

    def _fault_hits(self, number: int) -> int:
        return self._numbered[number].hits

    def _remove_fault(self, number: int) -> None:
        if self._numbered[number] in self._faults:
            self._faults.remove(self._numbered[number])

    def _clear_faults(self) -> None:
        self._faults.clear()

    def _read_commands(self) -> None:
        assert self._control is not None
        try:
            data = self._control.recv(65536)
        except ConnectionError:
            data = b""
        if not data:
            self._stop_as_orphan()
            return
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            self._control.send(json.dumps(self._answer(json.loads(line))).encode() + b"\n")

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"id": request["id"], "result": self.command(request["name"], request["arguments"])}
        except Exception as error:
            return {"id": request["id"], "error": repr(error)}

    def _stop_as_orphan(self) -> None:
        assert self._control is not None
        asyncio.get_running_loop().remove_reader(self._control)
        logger.warning("the process that started this broker has ended; the broker stops")
        self.is_orphaned = True
        self.stopping.set()
