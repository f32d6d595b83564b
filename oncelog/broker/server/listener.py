"""Accepting connections on one address, and looking after those that are open."""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from oncelog.broker.server.connection import Connection
from oncelog.broker.server.limits import ConnectionLimits, FrameMemory

if TYPE_CHECKING:
    from oncelog.broker.config.listeners import ListenerAddress
    from oncelog.broker.server.dispatch import Dispatcher

logger = logging.getLogger(__name__)

TICK_SECONDS = 2.0
STALLED_SECONDS_MAX = 30.0
"""A peer that is in the middle of a request, or owes us reading an answer, must make progress within this."""
BACKLOG_MIN = 1024
"""The loop that accepts connections also serves them, so more of them may have to wait than with Kafka, which has a
thread for that. One that finds no room is tried again by its system after a second."""


class ListenError(Exception):
    """An address cannot be listened on."""


class Listener:
    def __init__(
        self,
        address: ListenerAddress,
        dispatcher: Dispatcher,
        limits: ConnectionLimits,
        frame_memory: FrameMemory,
        idle_ms_max: int,
        backlog: int,
        send_buffer_bytes: int,
        monotonic: Callable[[], float],
    ) -> None:
        """`monotonic` is without the time that the event loop has lost: a peer is not closed for our own silence."""
        self.name = address.name
        self._address = address
        self._dispatcher = dispatcher
        self._limits = limits
        self.frame_memory = frame_memory
        self._backlog = max(backlog, BACKLOG_MIN)
        self._send_buffer_bytes = send_buffer_bytes
        self._idle_seconds_max = idle_ms_max / 1000 if idle_ms_max >= 0 else math.inf
        self._connections: set[Connection] = set()
        self._server: asyncio.Server | None = None
        self._tick: asyncio.TimerHandle | None = None
        self.monotonic = monotonic

    @property
    def port(self) -> int:
        assert self._server is not None
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    async def bind(self) -> None:
        """Take the address, so that its port is known; connections wait until `serve`."""
        loop = asyncio.get_running_loop()
        host, port = self._address.host or None, self._address.port
        # As bytes, or uvloop would load the codec for international names, which takes longer than all of this.
        hosts: Any = [host.encode()] if host and host.isascii() else host
        try:
            self._server = await loop.create_server(
                lambda: Connection(self, self._dispatcher),
                hosts,
                port,
                backlog=self._backlog,
                reuse_address=True,
                start_serving=False,
            )
        except OSError as error:
            raise ListenError(self._explain(error)) from None
        self._limit_send_buffers()

    def _limit_send_buffers(self) -> None:
        """Connections have it from here. What is sent from a file, a reader in step with us finds in the caches: a
        system that makes the buffer as large as it can takes half as much time again for a megabyte."""
        assert self._server is not None
        if self._send_buffer_bytes <= 0:
            return
        try:
            for listening in self._server.sockets:
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_buffer_bytes)
        except OSError as error:
            logger.warning("socket.send.buffer.bytes=%d is not possible here: %s", self._send_buffer_bytes, error)

    async def serve(self) -> None:
        assert self._server is not None
        await self._server.start_serving()
        logger.debug("listener %s serves on port %d", self.name, self.port)
        self._schedule_tick()

    async def stop(self) -> None:
        """Stop accepting, then drop what is open; clients reconnect to wherever the topics are."""
        if self._tick:
            self._tick.cancel()
        if self._server:
            self._server.close()
            for connection in list(self._connections):
                connection.close("the broker is stopping")
            self._dispatcher.stop()
            await self._server.wait_closed()

    def admit(self, connection: Connection) -> bool:
        if not self._limits.admit(connection.peer_host, self.monotonic()):
            return False
        self._connections.add(connection)
        logger.debug("connection opened: peer=%s listener=%s", connection.peer_address, self.name)
        return True

    def forget(self, connection: Connection) -> None:
        if connection in self._connections:
            self._connections.remove(connection)
            self._limits.release(connection.peer_host)
            logger.debug("connection closed: peer=%s listener=%s", connection.peer_address, self.name)

    def look_after(self) -> None:
        """Close the connections that stall or idle; give memory back that the others do not need just now."""
        now_seconds = self.monotonic()
        for connection in list(self._connections):
            quiet_seconds = now_seconds - connection.last_progress
            if connection.stalled_seconds(now_seconds) > STALLED_SECONDS_MAX:
                connection.close("it neither reads its answers nor finishes its request")
            elif connection.in_flight:
                continue
            elif quiet_seconds > self._idle_seconds_max:
                connection.close("idle for connections.max.idle.ms")
            elif quiet_seconds > TICK_SECONDS:
                connection.trim()

    def _schedule_tick(self) -> None:
        self._tick = asyncio.get_running_loop().call_later(TICK_SECONDS, self._on_tick)

    def _on_tick(self) -> None:
        self.look_after()
        self._dispatcher.follow_log_level()
        self._schedule_tick()

    def _explain(self, error: OSError) -> str:
        where = f"{self._address.host}:{self._address.port}"
        if error.errno == errno.EADDRINUSE:
            return f"cannot listen on {where}: the port is in use; stop what holds it or pass --listen HOST:PORT"
        if error.errno == errno.EACCES:
            return f"cannot listen on {where}: not permitted; ports below 1024 need privileges"
        if error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
            return f"cannot listen on {where}: this machine has no such address; check `listeners`"
        return f"cannot listen on {where}: {error.strerror or error}"
