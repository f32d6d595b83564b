"""The broker of tests: it does what its test says, which no other broker can be made to do.

A broker in the test's own process is told directly. One in a process of its own is told through a socket that it
inherits from the test, so that nobody else can reach it: a line of JSON with a name and arguments, answered by a
line with the result.
"""

from __future__ import annotations

import asyncio
import json
import socket
from typing import TYPE_CHECKING, Any

from oncelog.broker.app import BrokerApp
from oncelog.testing.faults import FaultPlan
from oncelog.testing.faulty_dispatch import ArmedFault, FaultyDispatcher

if TYPE_CHECKING:
    from oncelog.broker.config.broker_config import BrokerConfig
    from oncelog.broker.runtime.services import Services
    from oncelog.broker.server.dispatch import Dispatcher


class ControlledApp(BrokerApp):
    def __init__(self, config: BrokerConfig, control: socket.socket | None = None) -> None:
        super().__init__(config)
        self._control = control
        self._received = b""
        self._faults: list[ArmedFault] = []
        self._numbered: list[ArmedFault] = []

    async def start(self) -> None:
        await super().start()
        if self._control is not None:
            self._control.setblocking(False)
            asyncio.get_running_loop().add_reader(self._control, self._read_commands)

    def make_dispatcher(self, services: Services) -> Dispatcher:
        dispatcher = FaultyDispatcher(services)
        dispatcher.faults = self._faults
        return dispatcher

    def command(self, name: str, arguments: dict[str, Any]) -> Any:
        """To be called in the broker's event loop."""
        return getattr(self, f"_{name}")(**arguments)

    def _advance_clock(self, duration_ms: int) -> None:
        self._clock.advance(duration_ms)

    def _inject_fault(self, **plan: Any) -> int:
        fault = ArmedFault(FaultPlan(**plan))
        self._faults.append(fault)
        self._numbered.append(fault)
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
        data = self._control.recv(65536)
        if not data:
            asyncio.get_running_loop().remove_reader(self._control)
            return
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            request = json.loads(line)
            result = self.command(request["name"], request["arguments"])
            self._control.send(json.dumps(result).encode() + b"\n")
