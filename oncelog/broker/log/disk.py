"""The seam between the log and the operating system.

Everything that the log does to files goes through a `Disk`. The real one is a thin layer over `os`; tests
replace it by one that keeps files in memory, stops at the n-th call, fails with ENOSPC or EIO, or forgets
what was never synced. Calls raise `OSError` as the system does; the log turns that into `StorageError` or
into an error code, because only it knows what the failure means.

A file that was written is durable after `fdatasync`; a name that was created, renamed or removed is durable
after `fsync_dir` of its directory. Recovery assumes one thing more: a power cut takes back the latest of the changes
to the names of one directory that were not synced, not some in between. So the exchange of segments, truncation and
deletion from the front rename or remove several files before they sync the directory once. File systems with a journal
(ext4, XFS) or with transactions (Btrfs, ZFS) work like that. Nothing is assumed about the order among directories, or
between names and the contents of files.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from mmap import mmap

DIRECT_BYTES = 4096
"""Reads past the page cache begin at multiples of this, and so do their buffers."""


class StorageError(Exception):
    """The world failed us: a disk, a file that is not what it should be, a directory in use."""


class Disk:
    """Files of the machine. Paths are absolute or relative strings; descriptors are plain ints."""

    def open(self, path: str, *, writable: bool = False, create: bool = False) -> int:
        flags = os.O_CLOEXEC
        flags |= os.O_RDWR if writable else os.O_RDONLY
        if create:
            flags |= os.O_CREAT
        return os.open(path, flags, 0o644)

    def close(self, fd: int) -> None:
        os.close(fd)

    def dup(self, fd: int) -> int:
        return os.dup(fd)

    def pread(self, fd: int, size_bytes: int, position: int) -> bytes:
        return os.pread(fd, size_bytes, position)

    def open_direct(self, path: str) -> int:
        """For `pread_direct`. Not every file system can: EINVAL."""
        if not hasattr(os, "O_DIRECT"):
            raise OSError(errno.EINVAL, "no direct reads on this system", path)
        return os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)

    def pread_direct(self, fd: int, buffer: mmap, position: int) -> int:
        """Reads what the device holds, whatever the page cache says. Dirty pages are written back first."""
        return os.preadv(fd, [buffer], position)

    def drop_cache(self, fd: int, position: int) -> None:
        """Has the system forget its clean pages of the file, from the one of `position` on."""
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(fd, position - position % DIRECT_BYTES, 0, os.POSIX_FADV_DONTNEED)

    def sendfile(self, socket_fd: int, fd: int, position: int, size_bytes: int) -> int:
        """From the page cache into a socket; how many bytes the socket took."""
        return os.sendfile(socket_fd, fd, position, size_bytes)

    def pwrite(self, fd: int, data: bytes | bytearray | memoryview, position: int) -> int:
        return os.pwrite(fd, data, position)

    def truncate(self, fd: int, size_bytes: int) -> None:
        os.ftruncate(fd, size_bytes)

    def fdatasync(self, fd: int) -> None:
        os.fdatasync(fd)

    def fsync_dir(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def mkdir(self, path: str, mode: int = 0o755) -> None:
        os.mkdir(path, mode)

    def rmdir(self, path: str) -> None:
        os.rmdir(path)

    def listdir(self, path: str) -> list[str]:
        return os.listdir(path)

    def file_sizes(self, path: str) -> dict[str, int]:
        """The plain files of a directory with their sizes; one pass, no descriptor kept."""
        with os.scandir(path) as entries:
            return {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}

    def size_bytes(self, fd: int) -> int:
        return os.fstat(fd).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def copy_mode(self, source: int, target: int) -> None:
        """Gives a file the permissions of another."""
        os.fchmod(target, stat.S_IMODE(os.fstat(source).st_mode))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def lock(self, path: str) -> int:
        """Takes an exclusive lock for the life of the descriptor; raises BlockingIOError when it is held."""
        fd = self.open(path, writable=True, create=True)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException:
            self.close(fd)
            raise
        return fd

    def read_file(self, path: str) -> bytes:
        fd = self.open(path)
        try:
            return self.pread_exactly(fd, self.size_bytes(fd), 0)
        finally:
            self.close(fd)

    def pread_exactly(self, fd: int, size_bytes: int, position: int) -> bytes:
        """Reads a range that the caller knows to exist; a shorter file is an error."""
        data = self.pread(fd, size_bytes, position)
        if len(data) == size_bytes:
            return data
        parts = [data]
        missing = size_bytes - len(data)
        while missing and parts[-1]:
            parts.append(self.pread(fd, missing, position + size_bytes - missing))
            missing -= len(parts[-1])
        if missing:
            raise OSError(errno.EIO, f"file ends {missing} bytes before {position + size_bytes}")
        return b"".join(parts)

    def pwrite_all(self, fd: int, data: bytes | bytearray | memoryview, position: int) -> None:
        """Writes the whole of `data`; a short write is continued so that its cause shows itself."""
        written = self.pwrite(fd, data, position)
        view = memoryview(data)
        while written < len(view):
            count = self.pwrite(fd, view[written:], position + written)
            if count <= 0:
                raise OSError(errno.ENOSPC, "nothing could be written")
            written += count

    def write_new_file(self, path: str, data: bytes | bytearray) -> int:
        """Replaces the content of `path` and returns the open descriptor, not yet synced."""
        fd = self.open(path, writable=True, create=True)
        try:
            self.truncate(fd, 0)
            self.pwrite_all(fd, data, 0)
        except BaseException:
            self.close(fd)
            raise
        return fd

    def write_file_durably(self, path: str, data: bytes | bytearray) -> None:
        """Replaces a small file atomically: after a crash it has either the old or the new content."""
        temporary = path + ".tmp"
        fd = self.write_new_file(temporary, data)
        try:
            self.fdatasync(fd)
        finally:
            self.close(fd)
        self.rename(temporary, path)
        self.fsync_dir(os.path.dirname(path))

    def unlink_if_exists(self, path: str) -> bool:
        try:
            self.unlink(path)
        except FileNotFoundError:
            return False
        return True
