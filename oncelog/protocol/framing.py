"""Frames on a byte stream: a 4-byte big-endian size, then that many bytes. No sockets here.

A `FrameBuffer` is the memory that a connection receives into. Frames are handed out as views of it, so their
bytes are not copied between the socket and the log; in return, a view is valid only until the buffer is asked
for room again. The buffer grows with the bytes that came, never with the size that a peer merely claims.
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
"""Up to this size parts of an answer are joined; `StoredBytes` are always larger, since reading few bytes is cheap."""


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
        """Bytes that came and belong to no frame handed out so far."""
        return self._end - self._start

    def room(self) -> memoryview:
        """Where the next bytes may be received; never empty. Ends the life of frames handed out."""
        if self._start == self._end:
            self._start = self._end = 0
        if self._end == self._capacity or (self._start and self._frame_end() > self._capacity):
            self._make_room()
        return self._view[self._end :]

    def received(self, size_bytes: int) -> None:
        """`size_bytes` were written at the start of the last `room`."""
        self._end += size_bytes

    def next_frame(self) -> memoryview | None:
        """The next whole frame without its size, or None until more bytes have come."""
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
        """Whether the frame under way will make the buffer grow."""
        return self._frame_end() - self._start > self._capacity

    def detach(self) -> int:
        """Leave the memory to the frames handed out, which stay valid; returns its size. What follows is copied."""
        detached_bytes = self._capacity
        pending = self._end - self._start
        view = memoryview(bytearray(max(pending, CAPACITY_BYTES_MIN)))
        view[:pending] = self._view[self._start : self._end]
        self._view = view
        self._capacity = len(view)
        self._start, self._end = 0, pending
        return detached_bytes

    def trim(self) -> None:
        """Give memory back when nothing is buffered."""
        if self._start == self._end and self._capacity:
            self._start = self._end = self._capacity = 0
            self._view = memoryview(b"")

    def _frame_end(self) -> int:
        """Where the frame that begins at `_start` will end in the buffer, as far as is known."""
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
    """Say what a size that cannot be one probably is; people meet this with the wrong protocol or port."""
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
