"""One client's connection: bytes in, frames to dispatch, answers out in the order of the requests.

A request is handled as soon as its frame is whole, in the read callback itself; nothing is scheduled where
nothing waits. While a request waits (a long poll, an fsync), the next one starts only if the handler of the
waiting one allows it, and answers always leave in order. Back-pressure goes both ways: a peer that does not
read its answers is not read from. A peer that sends many requests at once gets a share of the loop's time, and the
rest of its requests wait for its next turn.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from itertools import count
from typing import TYPE_CHECKING, cast

from oncelog.broker.security.principals import ANONYMOUS
from oncelog.broker.server.dispatch import Reply
from oncelog.broker.server.response_writer import Outgoing
from oncelog.protocol.addresses import host_and_port
from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.framing import FrameBuffer, frame

if TYPE_CHECKING:
    from oncelog.broker.server.dispatch import Dispatcher
    from oncelog.broker.server.listener import Listener

logger = logging.getLogger(__name__)

PIPELINED_REQUESTS_MAX = 100
TURN_SECONDS = 0.002
"""How long one connection may keep the loop with the requests that it has sent."""
READ_AHEAD_BYTES_MAX = 8 * 1024
"""What is read of the next requests while one waits, because only who reads learns that the peer is gone."""
WRITE_BUFFER_BYTES_MAX = 4 * 1024 * 1024
PROGRESS_BYTES_MIN = 1024
"""What a peer has to send of an unfinished request for it to count as progress; a trickle does not."""

_REASON_LENGTH_MAX = 200

_connection_numbers = count(1)


class Connection(asyncio.BufferedProtocol):
    __slots__ = (
        "_detached_bytes",
        "_dispatcher",
        "_draining",
        "_exclusive",
        "_frames",
        "_listener",
        "_memory",
        "_memory_bytes",
        "_muted_until",
        "_outgoing",
        "_reading",
        "_replies",
        "_request_count",
        "_stall_mark",
        "_stalled_since",
        "_transport",
        "_write_paused",
        "closed",
        "connection_number",
        "last_progress",
        "peer_address",
        "peer_host",
        "principal",
    )

    def __init__(self, listener: Listener, dispatcher: Dispatcher) -> None:
        self.connection_number = next(_connection_numbers)
        self._listener = listener
        self._dispatcher = dispatcher
        self._frames = FrameBuffer(dispatcher.frame_size_bytes_max)
        self._memory = listener.frame_memory
        self._memory_bytes = 0
        """What our buffer is counted with."""
        self._detached_bytes = 0
        """The memory that a large request holds while it is handled."""
        self._replies: deque[Reply] = deque()
        self._exclusive: Reply | None = None
        """The reply that the next request has to wait for."""
        self._draining = False
        """The peer is gone; what it sent before it went is still handled."""
        self._muted_until: asyncio.TimerHandle | None = None
        self._reading = True
        self._write_paused = False
        self._request_count = 0
        self._stall_mark: tuple[int, int] | None = None
        self._stalled_since = 0.0
        self.closed = False
        self.peer_host = self.peer_address = ""
        self.principal = ANONYMOUS
        self.last_progress = 0.0

    @property
    def listener_name(self) -> str:
        return self._listener.name

    @property
    def in_flight(self) -> int:
        return len(self._replies)

    @property
    def unsent_bytes(self) -> int:
        return self._outgoing.unsent_bytes

    def stalled_seconds(self, now_seconds: float) -> float:
        """For how long the peer has owed us the rest of a request, or the reading of an answer, without getting
        on with it. Whoever wants to know asks every few seconds, so that nothing is noted in between."""
        mark = self._progress_mark()
        if mark is None or mark != self._stall_mark:
            self._stall_mark, self._stalled_since = mark, now_seconds
        return now_seconds - self._stalled_since

    def _progress_mark(self) -> tuple[int, int] | None:
        """A value that changes when the peer gets on; None while it owes nothing."""
        if self._write_paused:
            return -1, self.unsent_bytes
        if self._reading and not self._exclusive and self._frames.buffered_bytes:
            return self._request_count, self._frames.buffered_bytes // PROGRESS_BYTES_MIN
        return None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES_MAX)
        self._outgoing = Outgoing(self._transport, self.pause_writing, self.resume_writing, self.close)
        peer = transport.get_extra_info("peername")
        self.peer_host = self.peer_address = str(peer)
        if isinstance(peer, tuple):
            self.peer_host = peer[0]
            self.peer_address = host_and_port(peer[0], peer[1])
        self.last_progress = self._listener.monotonic()
        if not self._listener.admit(self):
            self.closed = True
            self._transport.abort()

    def connection_lost(self, _: Exception | None) -> None:
        """A peer that hangs up has still asked for what it sent: an acks=0 producer never waits for more."""
        self._draining = not self.closed
        self.closed = True
        self._outgoing.close()
        self._listener.forget(self)
        if self._draining:
            self._drain()
        else:
            self._end()

    def _drain(self) -> None:
        self._write_paused = False
        for reply in [reply for reply in self._replies if reply.abandonable]:
            reply.cancel()
            self._replies.remove(reply)
        if self._exclusive not in self._replies:
            self._exclusive = None
        self._pump()

    def _end(self) -> None:
        self._draining = False
        if self._muted_until:
            self._muted_until.cancel()
        for reply in self._replies:
            reply.on_done = None
            if reply.abandonable:
                reply.cancel()
        self._replies.clear()
        self._memory.forget(self._pump)
        self._memory.change(-self._memory_bytes)
        self._memory_bytes = self._detached_bytes = 0

    def get_buffer(self, _: int) -> memoryview:
        room = self._frames.room()
        if self._frames.capacity_bytes + self._detached_bytes != self._memory_bytes:
            self._count_memory()
        return room

    def buffer_updated(self, size_bytes: int) -> None:
        self._frames.received(size_bytes)
        self.last_progress = self._listener.monotonic()
        self._pump()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._write_paused = True

    def resume_writing(self) -> None:
        self._write_paused = False
        self._pump()

    def mute(self, duration_ms: int) -> None:
        """Stop reading for a while: how a quota slows a client down (KIP-219)."""
        if self._muted_until:
            self._muted_until.cancel()
        loop = asyncio.get_running_loop()
        self._muted_until = loop.call_later(duration_ms / 1000, self._unmute)

    def start_next(self, throttle_time_ms: int) -> None:
        """The request that the next one waits for needs no more than its answer."""
        self._exclusive = None
        if throttle_time_ms:
            self.mute(throttle_time_ms)
        asyncio.get_running_loop().call_soon(self._pump)

    def close(self, reason: str) -> None:
        """Drop the connection without an answer."""
        if not self.closed:
            self.closed = True
            logger.info("closed the connection from %s: %s", self.peer_host, _printable(reason))
            self._transport.abort()

    def keep_frame(self) -> None:
        """The request that is being dispatched needs its bytes until it is answered."""
        self._detached_bytes = self._frames.detach()
        self._count_memory()

    def trim(self) -> None:
        self._frames.trim()
        self._count_memory()

    def _count_memory(self) -> None:
        change = self._frames.capacity_bytes + self._detached_bytes - self._memory_bytes
        self._memory_bytes += change
        self._memory.change(change)

    def _may_grow(self) -> bool:
        """Whether there is memory for the rest of the frame; if not, we go on when there is."""
        if not self._memory.exhausted or not self._frames.wants_more_memory:
            return True
        self._memory.when_free(self._pump)
        return False

    def _unmute(self) -> None:
        self._muted_until = None
        self._pump()

    def _may_start(self) -> bool:
        return not (
            self._exclusive
            or (self.closed and not self._draining)
            or self._write_paused
            or self._muted_until
            or len(self._replies) >= PIPELINED_REQUESTS_MAX
        )

    def _pump(self) -> None:
        """Handle the frames that are whole, as far as order, back-pressure and fairness allow."""
        turn_ends_at = 0.0
        try:
            while may_start := self._may_start():
                request = self._frames.next_frame()
                if request is None:
                    break
                self._start(request)
                if not self._frames.buffered_bytes:
                    continue
                now = time.perf_counter()
                if not turn_ends_at:
                    turn_ends_at = now + TURN_SECONDS
                elif now >= turn_ends_at:
                    self._set_reading(False)
                    self._dispatcher.turns.call(self._pump)
                    return
        except ProtocolError as error:
            self.close(str(error))
            if self._draining:
                self._end()
        if self.closed:
            if self._draining and not (self._replies or self._muted_until):
                self._end()
            return
        self._set_reading((may_start or self._may_read_ahead()) and self._may_grow())

    def _may_read_ahead(self) -> bool:
        reply = self._exclusive
        return reply is not None and not reply.keeps_frame and self._frames.buffered_bytes < READ_AHEAD_BYTES_MAX

    def _start(self, request: memoryview) -> None:
        self._request_count += 1
        reply = self._dispatcher.dispatch(request, self)
        if reply.throttle_time_ms:
            self._throttle(reply)
        if self._draining and reply.abandonable:
            reply.cancel()
            return
        if reply.done and not self._replies:
            self._write(reply)
            return
        self._replies.append(reply)
        if not reply.done:
            self._exclusive = None if reply.pipelined else reply
            reply.on_done = self._reply_done

    def _reply_done(self, reply: Reply) -> None:
        """A reply that waited is ready: send it, and what waited behind it, then go on with requests."""
        if self.closed and not self._draining:
            return
        if reply.throttle_time_ms:
            self._throttle(reply)
        if reply is self._exclusive:
            self._exclusive = None
            if self._detached_bytes:
                self._detached_bytes = 0
                self._count_memory()
        while self._replies and self._replies[0].done:
            self._write(self._replies.popleft())
        if self._frames.buffered_bytes or not self._reading or self._draining:
            # Whoever made the reply ready may be in the midst of something; the next request is not part of it.
            asyncio.get_running_loop().call_soon(self._pump)

    def _throttle(self, reply: Reply) -> None:
        self.mute(reply.throttle_time_ms)
        reply.throttle_time_ms = 0

    def _write(self, reply: Reply) -> None:
        if reply.failure is not None:
            self.close(reply.failure)
        elif reply.parts is not None and not self.closed:
            self._outgoing.write(frame(reply.parts))

    def _set_reading(self, reading: bool) -> None:
        if reading != self._reading and not self.closed:
            self._reading = reading
            if reading:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()


def _printable(reason: str) -> str:
    """One line of ASCII, since a reason can quote what the peer sent."""
    return reason[:_REASON_LENGTH_MAX].encode("unicode_escape").decode()
