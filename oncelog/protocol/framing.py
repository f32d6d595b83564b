"""Frames on a byte stream: a 4-byte big-endian size, then that many bytes. No sockets here.

A connection receives into the memory of a `FrameBuffer`, which returns frames as views of that memory. So the bytes
are not copied between the socket and the log, but a view is valid only until the next call to `room`. The buffer
grows with the bytes that were received, never with the size that a peer merely claims.
"""

from __future__ import annotations

import struct
from typing import cast

from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.primitives import Buffer, Part

CAPACITY_BYTES_MIN = 16 * 1024
REQUEST_SIZE_BYTES_MIN = 8
"""Key, version and correlation id: a shorter frame cannot be a request."""

_SIZE = struct.Struct(">i")
COALESCE_BYTES_MAX = 32 * 1024
"""Shorter parts of a response are joined. `StoredBytes` are always longer, since it is cheap to read a few bytes."""


class FrameBuffer:
    __slots__ = ("_capacity", "_end", "_start", "_view", "size_bytes_max")

    def __init__(self, size_bytes_max: int) -> None:
        self.size_bytes_max = size_bytes_max
        self._capacity = 0
        self._view = memoryview(b"")
        self._start = 0
        self._end = 0

    @property
    def capacity_bytes(self) -> int:
        return self._capacity

    @property
    def buffered_bytes(self) -> int:
        """Bytes that were received and belong to no frame returned so far."""
        return self._end - self._start

    def room(self) -> memoryview:
        """Where to receive the next bytes; never empty. Invalidates all frames returned so far."""
        if self._start == self._end:
            self._start = self._end = 0
        if self._end == self._capacity or (self._start and self._frame_end() > self._capacity):
            self._make_room()
        return self._view[self._end :]

    def received(self, size_bytes: int) -> None:
        """`size_bytes` were written at the start of the last `room`."""
        self._end += size_bytes

    def next_frame(self) -> memoryview | None:
        """Return the next whole frame without its size, or None if it has not been received."""
        start = self._start + 4
        if self._end < start:
            return None
        (size_bytes,) = _SIZE.unpack_from(self._view, self._start)
        if not REQUEST_SIZE_BYTES_MIN <= size_bytes <= self.size_bytes_max:
            raise ProtocolError(describe_bad_size(size_bytes, self.size_bytes_max))
        end = start + size_bytes
        if self._end < end:
            return None
        self._start = end
        return self._view[start:end]

    @property
    def wants_more_memory(self) -> bool:
        """Whether the frame that is being received needs a larger buffer."""
        return self._frame_end() - self._start > self._capacity

    def detach(self) -> int:
        """Leave the memory to the frames returned so far, which stay valid. Return its size. Later bytes are copied."""
        detached_bytes = self._capacity
        pending = self._end - self._start
        view = memoryview(bytearray(max(pending, CAPACITY_BYTES_MIN)))
        view[:pending] = self._view[self._start : self._end]
        self._view = view
        self._capacity = len(view)
        self._start, self._end = 0, pending
        return detached_bytes

    def trim(self) -> None:
        """Free the memory if nothing is buffered."""
        if self._start == self._end and self._capacity:
            self._start = self._end = self._capacity = 0
            self._view = memoryview(b"")

    def _frame_end(self) -> int:
        """Where the frame at `_start` will end in the buffer, as far as is known."""
        if self._end - self._start < 4:
            return self._start + 4
        (size_bytes,) = _SIZE.unpack_from(self._view, self._start)
        return self._start + 4 + int(size_bytes)

    def _make_room(self) -> None:
        """Move the unfinished frame to the front, into a larger buffer when it fills this one."""
        pending = self._end - self._start
        wanted = self._frame_end() - self._start
        capacity = max(self._capacity, CAPACITY_BYTES_MIN)
        if pending * 2 > capacity:
            capacity = max(capacity, min(wanted, pending * 2 + CAPACITY_BYTES_MIN))
        if capacity == self._capacity:
            self._view[:pending] = self._view[self._start : self._end]
        else:
            view = memoryview(bytearray(capacity))
            view[:pending] = self._view[self._start : self._end]
            self._view = view
            self._capacity = capacity
        self._start, self._end = 0, pending


def describe_bad_size(size_bytes: int, size_bytes_max: int) -> str:
    """Explain an impossible size, which usually comes from a client of another protocol."""
    head = _SIZE.pack(size_bytes)
    if head[:2] == b"\x16\x03":
        return "a TLS client connected to a plaintext listener"
    if head in (b"GET ", b"POST", b"HEAD", b"PUT "):
        return "an HTTP client connected; this port speaks Kafka's protocol"
    if size_bytes > size_bytes_max:
        return f"a frame of {size_bytes} bytes is larger than socket.request.max.bytes={size_bytes_max}"
    return f"a frame of {size_bytes} bytes is too short to be a request"


def frame(parts: list[Part]) -> list[Part]:
    """The parts of a message with the frame's size in front, small neighbours joined."""
    size_bytes = sum(map(len, parts))
    if size_bytes <= COALESCE_BYTES_MAX:
        return [_SIZE.pack(size_bytes) + b"".join(cast(list[Buffer], parts))]
    joined: list[Part] = []
    small: list[Buffer] = [_SIZE.pack(size_bytes)]
    for part in parts:
        if len(part) <= COALESCE_BYTES_MAX:
            small.append(cast(Buffer, part))
        else:
            joined += (b"".join(small), part) if small else (part,)
            small = []
    if small:
        joined.append(b"".join(small))
    return joined
