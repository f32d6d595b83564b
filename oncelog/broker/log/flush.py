"""Making a log durable in two halves, so that the slow half can run in another thread.

`PartitionLog.begin_flush` gathers what must be synced into a `FlushTicket`; `FlushTicket.run` does nothing
but sync and may run anywhere; `PartitionLog.complete_flush` moves the recovery point. The ticket owns
duplicates of the descriptors, so that the log may close, roll or delete files meanwhile. They are duplicates
and not newly opened files because an error of an earlier write-back is only reported to descriptors that
were open then.

Directories, and small files that are made anew should they be lost, are opened for their sync. If the process has no
descriptor left for that, nothing has failed: the ticket says so, and the next one does the rest.
"""

from __future__ import annotations

import errno

from oncelog.broker.log.disk import Disk


class FlushTicket:
    """One flush of one log, up to `end_offset`."""

    __slots__ = ("directories", "disk", "end_offset", "error", "fds", "paths")

    def __init__(self, disk: Disk, end_offset: int, paths: list[str], directories: list[str]) -> None:
        self.disk = disk
        self.end_offset = end_offset
        self.fds: list[int] = []
        self.paths = paths
        self.directories = directories
        self.error: OSError | None = None

    @property
    def lacks_descriptors(self) -> bool:
        """Whether what is still in `paths` and `directories` could not be opened. The records are synced."""
        return self.error is not None and self.error.errno in (errno.EMFILE, errno.ENFILE)

    def run(self) -> None:
        """Syncs everything; a failure is kept for `complete_flush`. A sync that failed is never retried."""
        try:
            for fd in self.fds:
                self.disk.fdatasync(fd)
            # Before the rest, which needs one.
            self.release()
            while self.paths:
                self._sync_path(self.paths[0])
                del self.paths[0]
            while self.directories:
                self.disk.fsync_dir(self.directories[0])
                del self.directories[0]
        except OSError as error:
            self.error = error
        finally:
            self.release()

    def _sync_path(self, path: str) -> None:
        fd = self.disk.open(path)
        try:
            self.disk.fdatasync(fd)
        finally:
            self.disk.close(fd)

    def release(self) -> None:
        """Gives the descriptors back, also without having run."""
        fds, self.fds = self.fds, []
        for fd in fds:
            self.disk.close(fd)
