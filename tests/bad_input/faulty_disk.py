"""A disk that breaks on request, for the files of one topic."""

from __future__ import annotations

import os
import threading

from oncelog.broker.log.disk import Disk


class FaultyDisk(Disk):
    """Works until it is told which call fails, how, and for which files."""

    def __init__(self) -> None:
        self.write_error = 0
        self.sync_error = 0
        self.part_bytes = 0
        """What a failing write still writes."""
        self.broken_directory = ""
        self._held_topic = ""
        self._released = threading.Event()
        self.is_holding = threading.Event()
        """Set once a sync waits for `release`."""
        self._paths: dict[int, str] = {}

    def hold(self, topic: str) -> None:
        """Let no sync of these files end before `release`."""
        self._released.clear()
        self.is_holding.clear()
        self._held_topic = topic

    def release(self) -> None:
        self._held_topic = ""
        self._released.set()

    def open(self, path: str, *, writable: bool = False, create: bool = False) -> int:
        fd = super().open(path, writable=writable, create=create)
        self._paths[fd] = path
        return fd

    def dup(self, fd: int) -> int:
        copy = super().dup(fd)
        self._paths[copy] = self._paths[fd]
        return copy

    def pwrite(self, fd: int, data: bytes | bytearray | memoryview, position: int) -> int:
        if self.write_error and self._is_broken(fd):
            if self.part_bytes:
                count, self.part_bytes = self.part_bytes, 0
                return super().pwrite(fd, memoryview(data)[:count], position)
            raise OSError(self.write_error, os.strerror(self.write_error))
        return super().pwrite(fd, data, position)

    def fdatasync(self, fd: int) -> None:
        if self._held_topic and self._is_of(self._held_topic, fd):
            self.is_holding.set()
            self._released.wait()
        if self.sync_error and self._is_broken(fd):
            raise OSError(self.sync_error, os.strerror(self.sync_error))
        super().fdatasync(fd)

    def _is_broken(self, fd: int) -> bool:
        return self._is_of(self.broken_directory, fd)

    def _is_of(self, topic: str, fd: int) -> bool:
        return f"/{topic}-" in self._paths[fd]
