"""One client's connection: bytes in, frames to dispatch, answers out in the order of the requests.

A request is handled as soon as its frame is whole, in the read callback itself; nothing is scheduled where
nothing waits. While a request waits (a long poll, an fsync), the next one starts only if the handler of the
waiting one allows it, and answers always leave in order. Back-pressure goes both ways: a peer that does not
read its answers is not read from.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, cast

from oncelog.broker.server.dispatch import Reply
from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.framing import FrameBuffer, frame

if TYPE_CHECKING:
    from oncelog.broker.server.dispatch import Dispatcher
    from oncelog.broker.server.listener import Listener

logger = logging.getLogger(__name__)

PIPELINED_REQUESTS_MAX = 100
WRITE_BUFFER_BYTES_MAX = 4 * 1024 * 1024


class Connection(asyncio.BufferedProtocol):
    __slots__ = (
        "_dispatcher",
        "_exclusive",
        "_frames",
        "_listener",
        "_muted_until",
        "_reading",
        "_replies",
        "_transport",
        "_write_paused",
        "closed",
        "last_progress",
        "peer_host",
        "write_paused_since",
    )

    def __init__(self, listener: Listener, dispatcher: Dispatcher) -> None:
        self._listener = listener
        self._dispatcher = dispatcher
        self._frames = FrameBuffer(dispatcher.frame_size_bytes_max)
        self._replies: deque[Reply] = deque()
        self._exclusive = False
        self._muted_until: asyncio.TimerHandle | None = None
        self._reading = True
        self._write_paused = False
        self.closed = False
        self.peer_host = ""
        self.last_progress = 0.0
        self.write_paused_since: float | None = None

    @property
    def listener_name(self) -> str:
        return self._listener.name

    @property
    def in_flight(self) -> int:
        return len(self._replies)

    @property
    def mid_frame(self) -> bool:
        """Whether a peer owes us the rest of a frame."""
        return self._frames.buffered_bytes > 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES_MAX)
        peer = transport.get_extra_info("peername")
        self.peer_host = peer[0] if isinstance(peer, tuple) else str(peer)
        self.last_progress = self._listener.monotonic()
        if not self._listener.admit(self):
            self._transport.abort()

    def connection_lost(self, _: Exception | None) -> None:
        self.closed = True
        if self._muted_until:
            self._muted_until.cancel()
        for reply in self._replies:
            reply.cancel()
        self._replies.clear()
        self._listener.forget(self)

    def get_buffer(self, _: int) -> memoryview:
        return self._frames.room()

    def buffer_updated(self, size_bytes: int) -> None:
        self._frames.received(size_bytes)
        self.last_progress = self._listener.monotonic()
        self._pump()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._write_paused = True
        self.write_paused_since = self._listener.monotonic()

    def resume_writing(self) -> None:
        self._write_paused = False
        self.write_paused_since = None
        self._pump()

    def mute(self, duration_ms: int) -> None:
        """Stop reading for a while: how a quota slows a client down (KIP-219)."""
        if self._muted_until:
            self._muted_until.cancel()
        loop = asyncio.get_running_loop()
        self._muted_until = loop.call_later(duration_ms / 1000, self._unmute)

    def close(self, reason: str) -> None:
        """Drop the connection without an answer."""
        if not self.closed:
            self.closed = True
            logger.info("closed the connection from %s: %s", self.peer_host, reason)
            self._transport.abort()

    def trim(self) -> None:
        self._frames.trim()

    def _unmute(self) -> None:
        self._muted_until = None
        self._pump()

    def _may_start(self) -> bool:
        return not (
            self._exclusive
            or self.closed
            or self._write_paused
            or self._muted_until
            or len(self._replies) >= PIPELINED_REQUESTS_MAX
        )

    def _pump(self) -> None:
        """Handle the frames that are whole, as far as order and back-pressure allow."""
        try:
            while self._may_start():
                request = self._frames.next_frame()
                if request is None:
                    break
                self._start(request)
        except ProtocolError as error:
            self.close(str(error))
        self._set_reading(self._may_start())

    def _start(self, request: memoryview) -> None:
        reply = self._dispatcher.dispatch(request, self)
        if reply.throttle_time_ms:
            self.mute(reply.throttle_time_ms)
        if reply.done and not self._replies:
            self._write(reply)
            return
        self._replies.append(reply)
        if not reply.done:
            self._exclusive = not reply.pipelined
            reply.on_done = self._reply_done

    def _reply_done(self, reply: Reply) -> None:
        """A reply that waited is ready: send it, and what waited behind it, then go on with requests."""
        if self.closed:
            return
        if not reply.pipelined:
            self._exclusive = False
        while self._replies and self._replies[0].done:
            self._write(self._replies.popleft())
        if self._frames.buffered_bytes or not self._reading:
            self._pump()

    def _write(self, reply: Reply) -> None:
        if reply.failure is not None:
            self.close(reply.failure)
        elif reply.parts is not None and not self.closed:
            parts = frame(reply.parts)
            if len(parts) == 1:
                self._transport.write(parts[0])
            else:
                self._transport.writelines(parts)

    def _set_reading(self, reading: bool) -> None:
        if reading != self._reading and not self.closed:
            self._reading = reading
            if reading:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()
