"""A disk in memory that knows which of its bytes and names would survive a power cut.

Every call that changes something has a number. The disk can be told to crash at one of them, or to fail
there with an errno. After a crash it makes the disk that the next process would find: `after_kill` keeps
everything that was written, `after_power_cut` keeps what was synced and some of the rest. What a failed sync leaves
is at `File`.
"""

from __future__ import annotations

import copy
import errno
import os
import random
from collections.abc import Callable, Iterable
from mmap import mmap

from oncelog.broker.log.disk import Disk

BLOCK_BYTES = 64


class SimulatedCrash(BaseException):
    """The process died here. Not an Exception, so that nothing handles it."""


class File:
    """What the page cache holds of a file, what the device holds, and the changes that were not written back yet.

    A write-back that fails does to a file what Linux does: the pages stay readable and count as clean, so the next
    sync has nothing to write and succeeds. A block that was new when its write failed is worse off. ext4 takes it for
    written, so later writes to the same cached page succeed, too, but the block reads as zeros after a power cut.
    """

    def __init__(self) -> None:
        self.data = bytearray()
        self.durable = bytearray()
        self.pending: list[tuple[str, int, bytes]] = []
        self.written: set[int] = set()
        """Blocks that were written to the device once."""
        self.lost: set[int] = set()
        """Blocks of which nothing reaches the device until the page cache forgets them."""

    def apply(self, kind: str, position: int, data: bytes) -> None:
        apply_change(self.data, kind, position, data)
        self.pending.append((kind, position, data))
        if kind == "truncate":
            self.lost = {block for block in self.lost if block * BLOCK_BYTES < position}
            self.written = {block for block in self.written if block * BLOCK_BYTES < position}

    def sync(self) -> None:
        self.durable, dirty = self._write_back(set())
        self.written |= dirty - self.lost
        self.pending.clear()

    def fail_sync(self, rng: random.Random) -> None:
        """Some of the dirty blocks do not reach the device. All of them are clean from now on."""
        _, dirty = self._write_back(set())
        failed = {block for block in dirty if rng.random() < 0.7} or dirty
        self.durable, _ = self._write_back(failed)
        self.written |= dirty - failed - self.lost
        self.lost |= failed - self.written
        self.pending.clear()

    def read_device(self) -> bytearray:
        """What a read past the page cache finds; it has dirty pages written back first."""
        return self._write_back(set())[0]

    def _write_back(self, failed: set[int]) -> tuple[bytearray, set[int]]:
        """What the device holds if all dirty blocks but the failed ones are written, and which were dirty."""
        durable = bytearray(self.durable)
        dirty: set[int] = set()
        for kind, position, content in self.pending:
            if kind == "truncate":
                apply_change(durable, kind, position, b"")
                dirty = {block for block in dirty if block * BLOCK_BYTES < position}
                if position % BLOCK_BYTES:
                    dirty.add(position // BLOCK_BYTES)
            else:
                dirty.update(range(position // BLOCK_BYTES, -(-(position + len(content)) // BLOCK_BYTES)))
        apply_change(durable, "truncate", len(self.data), b"")
        for block in dirty - failed - self.lost:
            part = slice(block * BLOCK_BYTES, (block + 1) * BLOCK_BYTES)
            durable[part] = self.data[part]
        return durable, dirty

    def evict(self, rng: random.Random) -> None:
        """The page cache forgets some clean pages; the next reader has them from the device."""
        self.drop([block for block in range(-(-len(self.data) // BLOCK_BYTES)) if rng.random() < 0.5])

    def drop(self, blocks: Iterable[int]) -> None:
        on_device, dirty = self._write_back(set())
        for block in set(blocks) - dirty:
            part = slice(block * BLOCK_BYTES, (block + 1) * BLOCK_BYTES)
            self.data[part] = on_device[part]
            self.lost.discard(block)

    def cut_power(self, rng: random.Random) -> None:
        """Some prefix of the writes survives; of the last one perhaps a part, and a block may be zeros."""
        data = bytearray(self.durable)
        count = rng.randint(0, len(self.pending))
        for i, (kind, position, content) in enumerate(self.pending[:count]):
            if kind == "write" and i == count - 1:
                content = content[: rng.randint(0, len(content))]
            if kind == "write" and content and rng.random() < 0.2:
                start = rng.randrange(len(content))
                hole = content[start : start + BLOCK_BYTES]
                content = content[:start] + bytes(len(hole)) + content[start + len(hole) :]
            apply_change(data, kind, position, content)
        for block in self.lost:
            part = slice(block * BLOCK_BYTES, min((block + 1) * BLOCK_BYTES, len(data)))
            data[part] = bytes(len(data[part]))
        self.data = data
        self.durable = bytearray(data)
        self.pending.clear()
        self.written = set(range(-(-len(data) // BLOCK_BYTES)))
        self.lost = set()


def apply_change(data: bytearray, kind: str, position: int, content: bytes) -> None:
    if kind == "truncate":
        del data[position:]
        data.extend(bytes(position - len(data)))
    else:
        data.extend(bytes(max(0, position - len(data))))
        data[position : position + len(content)] = content


Names = dict[str, "File | None"]
"""Absolute path to file, or to None for a directory."""


def _move(names: Names, source: str, target: str) -> None:
    moved = {path: value for path, value in names.items() if path == source or path.startswith(source + "/")}
    for path in moved:
        del names[path]
    for path, value in moved.items():
        names[target + path[len(source) :]] = value


class SimulatedDisk(Disk):
    def __init__(self) -> None:
        self.names: Names = {"/": None}
        self.durable_names: Names = {"/": None}
        self.pending_names: dict[str, list[Callable[[Names], None]]] = {}
        self.descriptors: dict[int, File] = {}
        self.next_fd = 1000
        self.locked: set[str] = set()
        self.calls: list[str] = []
        self.crash_at = -1
        self.crashed = False
        self.rng = random.Random(0)
        self.file_time_ms = 0
        """When any file was last modified, as far as this disk is concerned."""
        self.failures: dict[str, list[int]] = {}
        """Per kind of call the errnos of the next calls; 0 means that one succeeds. Besides the kinds that change
        something there are `pread` and, per suffix of a file that exists, `open .log` and the like."""

    # -- control ---------------------------------------------------------------------------------------------

    def fail(self, kind: str, *errnos: int) -> None:
        self.failures.setdefault(kind, []).extend(errnos)

    def _step(self, kind: str) -> None:
        if self.crashed:
            raise SimulatedCrash
        self.calls.append(kind)
        if len(self.calls) == self.crash_at:
            self.crashed = True
            raise SimulatedCrash
        self._maybe_fail(kind)

    def _maybe_fail(self, kind: str) -> None:
        queue = self.failures.get(kind)
        if queue:
            code = queue.pop(0)
            if code:
                raise OSError(code, os.strerror(code))

    def after_kill(self, evict: random.Random | None = None) -> SimulatedDisk:
        """The machine goes on; what was not synced is still only in the page cache, of which some may be evicted."""
        disk = SimulatedDisk()
        # One deep copy, so that names in both views still share their files.
        disk.names, disk.durable_names, disk.pending_names = copy.deepcopy(
            (self.names, self.durable_names, self.pending_names)
        )
        if evict is not None:
            for file in disk.files():
                file.evict(evict)
        return disk

    def after_power_cut(self, rng: random.Random) -> SimulatedDisk:
        """Names survive in the order in which they changed, per directory, up to some point."""
        disk = self.after_kill()
        for changes in disk.pending_names.values():
            for change in changes[: rng.randint(0, len(changes))]:
                change(disk.durable_names)
        disk.pending_names = {}
        disk.names = {
            path: value
            for path, value in disk.durable_names.items()
            if path == "/" or os.path.dirname(path) in disk.durable_names
        }
        disk.durable_names = dict(disk.names)
        for file in disk.files():
            file.cut_power(rng)
        return disk

    def files(self) -> list[File]:
        return list({id(file): file for file in self.names.values() if file is not None}.values())

    def _change_name(self, directory: str, change: Callable[[Names], None]) -> None:
        change(self.names)
        self.pending_names.setdefault(directory, []).append(change)

    # -- Disk ------------------------------------------------------------------------------------------------

    def open(self, path: str, *, writable: bool = False, create: bool = False) -> int:
        file = self.names.get(path)
        if file is None:
            if not create or os.path.dirname(path) not in self.names:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            self._step("create")
            file = File()
            self._change_name(os.path.dirname(path), _Link(path, file))
        else:
            self._maybe_fail(f"open {os.path.splitext(path)[1]}")
        self.next_fd += 1
        self.descriptors[self.next_fd] = file
        return self.next_fd

    def close(self, fd: int) -> None:
        del self.descriptors[fd]

    def dup(self, fd: int) -> int:
        self.next_fd += 1
        self.descriptors[self.next_fd] = self.descriptors[fd]
        return self.next_fd

    def pread(self, fd: int, size_bytes: int, position: int) -> bytes:
        self._maybe_fail("pread")
        return bytes(self.descriptors[fd].data[position : position + size_bytes])

    def open_direct(self, path: str) -> int:
        self._maybe_fail("open_direct")
        return self.open(path)

    def pread_direct(self, fd: int, buffer: mmap, position: int) -> int:
        self._maybe_fail("pread_direct")
        found = self.descriptors[fd].read_device()[position : position + len(buffer)]
        buffer[: len(found)] = bytes(found)
        return len(found)

    def drop_cache(self, fd: int, position: int) -> None:
        self.descriptors[fd].drop(range(position // BLOCK_BYTES, len(self.descriptors[fd].data) // BLOCK_BYTES + 1))

    def sendfile(self, socket_fd: int, fd: int, position: int, size_bytes: int) -> int:
        return os.write(socket_fd, self.pread(fd, size_bytes, position))

    def pwrite(self, fd: int, data: bytes | bytearray | memoryview, position: int) -> int:
        content = bytes(data)
        try:
            self._step("pwrite")
        except SimulatedCrash:
            # A kill may find the kernel in the middle of a write.
            part = content[: self.rng.randint(0, len(content))]
            if len(self.calls) == self.crash_at and part:
                self.descriptors[fd].apply("write", position, part)
            raise
        except OSError:
            part = content[: self.rng.randint(0, max(0, len(content) - 1))]
            if part:
                self.descriptors[fd].apply("write", position, part)
            raise
        self.descriptors[fd].apply("write", position, content)
        return len(content)

    def truncate(self, fd: int, size_bytes: int) -> None:
        if len(self.descriptors[fd].data) != size_bytes:
            self._step("truncate")
            self.descriptors[fd].apply("truncate", size_bytes, b"")

    def fdatasync(self, fd: int) -> None:
        try:
            self._step("fdatasync")
        except OSError:
            self.descriptors[fd].fail_sync(self.rng)
            raise
        self.descriptors[fd].sync()

    def fsync_dir(self, path: str) -> None:
        self._step("fsync_dir")
        if path not in self.names:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        for change in self.pending_names.pop(path, []):
            change(self.durable_names)

    def rename(self, source: str, target: str) -> None:
        if source not in self.names:
            raise FileNotFoundError(errno.ENOENT, "no such file", source)
        self._step("rename")
        self._change_name(os.path.dirname(target), _Rename(source, target))

    def unlink(self, path: str) -> None:
        if self.names.get(path) is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        self._step("unlink")
        self._change_name(os.path.dirname(path), _Unlink(path))

    def mkdir(self, path: str, mode: int = 0o755) -> None:
        self._step("mkdir")
        self._change_name(os.path.dirname(path), _Link(path, None))

    def rmdir(self, path: str) -> None:
        assert not self.listdir(path)
        self._step("rmdir")
        self._change_name(os.path.dirname(path), _Unlink(path))

    def listdir(self, path: str) -> list[str]:
        return [os.path.basename(name) for name in self.names if os.path.dirname(name) == path and name != "/"]

    def file_sizes(self, path: str) -> dict[str, int]:
        return {
            os.path.basename(name): len(file.data)
            for name, file in self.names.items()
            if file is not None and os.path.dirname(name) == path
        }

    def size_bytes(self, fd: int) -> int:
        return len(self.descriptors[fd].data)

    def copy_mode(self, source: int, target: int) -> None:
        pass

    def modified_ms(self, path: str) -> int:
        return self.file_time_ms

    def exists(self, path: str) -> bool:
        return path in self.names

    def lock(self, path: str) -> int:
        if path in self.locked:
            raise BlockingIOError
        self.locked.add(path)
        return self.open(path, writable=True, create=True)


class _Link:
    def __init__(self, path: str, file: File | None) -> None:
        self.path, self.file = path, file

    def __call__(self, names: Names) -> None:
        names[self.path] = self.file


class _Unlink:
    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, names: Names) -> None:
        names.pop(self.path, None)


class _Rename:
    def __init__(self, source: str, target: str) -> None:
        self.source, self.target = source, target

    def __call__(self, names: Names) -> None:
        if self.source in names:
            names.pop(self.target, None)
            _move(names, self.source, self.target)
