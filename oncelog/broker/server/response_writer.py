"""What a connection writes: memory through its transport, stored bytes from their file straight into the socket.

The system moves stored bytes from the page cache into the socket (sendfile), so they never come through the memory
of this process. The transport cannot do that, so such an answer is sent on a duplicate of the transport's socket
while the transport has nothing to write itself; the order of the bytes is then the order of the calls.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from typing import TYPE_CHECKING

from oncelog.protocol.primitives import Part, StoredBytes

if TYPE_CHECKING:
    from collections.abc import Callable

TURN_BYTES_MAX = 4 * 1024 * 1024
"""What is sent in one go to a peer that reads as fast as we write, before others get their turn."""


class Outgoing:
    """`on_blocked` is called when a peer does not take stored bytes as they come, `on_drained` when it has them all,
    `on_failed` when they cannot be sent."""

    __slots__ = (
        "_on_blocked",
        "_on_drained",
        "_on_failed",
        "_parts",
        "_sent_of_first",
        "_socket",
        "_transport",
        "_unsent_bytes",
        "_waits",
    )

    def __init__(
        self,
        transport: asyncio.Transport,
        on_blocked: Callable[[], None],
        on_drained: Callable[[], None],
        on_failed: Callable[[str], None],
    ) -> None:
        self._transport = transport
        self._on_blocked = on_blocked
        self._on_drained = on_drained
        self._on_failed = on_failed
        self._socket: socket.socket | None = None
        self._parts: deque[Part] = deque()
        self._sent_of_first = 0
        self._unsent_bytes = 0
        self._waits = False

    @property
    def unsent_bytes(self) -> int:
        return self._unsent_bytes + self._transport.get_write_buffer_size()

    def write(self, parts: list[Part]) -> None:
        if self._parts:
            self._queue(parts)
        elif len(parts) == 1 and not isinstance(parts[0], StoredBytes):
            self._transport.write(parts[0])
        elif any(isinstance(part, StoredBytes) for part in parts) and self._may_bypass():
            self._queue(parts)
            self._send()
        else:
            self._write_from_memory(parts)

    def close(self) -> None:
        """The connection is over; the peer learns so once no descriptor of the socket is left."""
        self._stop_waiting()
        self._parts.clear()
        self._unsent_bytes = 0
        if self._socket:
            self._socket.close()
        # They belong to the connection, which would be part of a cycle and stay until the garbage collector comes.
        self._on_blocked = self._on_drained = self._on_failed = _ignore

    def _write_from_memory(self, parts: list[Part]) -> None:
        try:
            in_memory = [part.read() if isinstance(part, StoredBytes) else part for part in parts]
        except OSError as error:
            self._fail(error)
        else:
            self._transport.writelines(in_memory)

    def _may_bypass(self) -> bool:
        """Not while the transport has something to write, never past encryption, nor without a descriptor."""
        if self._transport.get_write_buffer_size() or self._transport.get_extra_info("sslcontext"):
            return False
        if self._socket is None:
            try:
                descriptor = socket.dup(self._transport.get_extra_info("socket").fileno())
            except OSError:
                return False
            self._socket = socket.socket(fileno=descriptor)
            self._socket.setblocking(False)
        return True

    def _queue(self, parts: list[Part]) -> None:
        self._parts.extend(parts)
        self._unsent_bytes += sum(map(len, parts))

    def _send(self) -> None:
        try:
            drained = self._send_turn()
        except OSError as error:
            self._stop_waiting()
            self._fail(error)
            return
        if drained:
            if self._waits:
                self._stop_waiting()
                self._on_drained()
        elif not self._waits:
            assert self._socket is not None
            self._waits = True
            asyncio.get_running_loop().add_writer(self._socket, self._send)
            self._on_blocked()

    def _send_turn(self) -> bool:
        """Whether everything is sent; if not, the socket is full or others are to have their turn."""
        assert self._socket is not None
        parts, turn_bytes = self._parts, 0
        while parts:
            if turn_bytes >= TURN_BYTES_MAX:
                return False
            part, start = parts[0], self._sent_of_first
            try:
                if isinstance(part, StoredBytes):
                    sent = part.send(self._socket.fileno(), start, TURN_BYTES_MAX)
                else:
                    more = socket.MSG_MORE if len(parts) > 1 else 0
                    sent = self._socket.send(memoryview(part)[start:] if start else part, more)
            except BlockingIOError:
                return False
            turn_bytes += sent
            self._unsent_bytes -= sent
            if start + sent < len(part):
                self._sent_of_first = start + sent
                if sent < TURN_BYTES_MAX:
                    # The socket has no room for more: to ask again would cost as much as to send.
                    return False
            else:
                self._sent_of_first = 0
                parts.popleft()
        return True

    def _fail(self, error: OSError) -> None:
        self._on_failed(f"an answer could not be sent: {error.strerror or error}")

    def _stop_waiting(self) -> None:
        if self._waits:
            assert self._socket is not None
            self._waits = False
            asyncio.get_running_loop().remove_writer(self._socket)


def _ignore(*_: object) -> None:
    """Nobody listens any more."""
