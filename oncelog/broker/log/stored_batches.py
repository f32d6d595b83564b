"""Batches of a segment that are sent from their file without being read into memory."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from oncelog.protocol.primitives import StoredBytes

if TYPE_CHECKING:
    from oncelog.broker.log.segment import Segment


class StoredBatches(StoredBytes):
    """A range of a segment's file that holds whole batches and does not change any more.

    It holds no descriptor: a broker may owe answers to more clients than it may have files open. The segment opens
    its file again if it has to, also when it is about to be deleted; OSError once it is.
    """

    __slots__ = ("_position", "_segment", "_size_bytes")

    def __init__(self, segment: Segment, position: int, size_bytes: int) -> None:
        self._segment = segment
        self._position = position
        self._size_bytes = size_bytes

    def __len__(self) -> int:
        return self._size_bytes

    def read(self) -> bytes:
        segment = self._segment
        return segment.disk.pread_exactly(segment.file(), self._size_bytes, self._position)

    def send(self, socket_fd: int, start: int, size_bytes_max: int) -> int:
        segment = self._segment
        size_bytes = min(self._size_bytes - start, size_bytes_max)
        sent = segment.disk.sendfile(socket_fd, segment.file(), self._position + start, size_bytes)
        if not sent:
            raise OSError(errno.EIO, "the file is shorter than it was")
        return sent
