"""Whether the device holds what the page cache shows of a file.

When a write to the device fails, Linux reports it to the sync that waits for it and marks the pages clean. They can
still be read, the next sync has nothing to write and succeeds, and a power cut loses them (PostgreSQL's "fsyncgate").
A process that starts later is told nothing. So recovery takes nothing that no checkpoint vouches for from the page
cache: it compares what it is about to promise with what an O_DIRECT read finds on the device.

If the two differ, the file is copied to a new one, which is synced and takes the old one's name. The copy is made from
the page cache, which may hold the only good version of a block that an acknowledged record shares with a lost one.
Writing the same bytes again in place would not help: if the first write to a block of ext4 fails, the block stays an
unwritten extent. Later writes through the cached page reach the device, but the block reads as zeros once the page is
evicted. That cannot be seen if the block should hold zeros, so recovery drops the page that will be appended to.
A file system that cannot read past its cache gets the copy as well.
"""

from __future__ import annotations

import logging
import os
from mmap import mmap

from oncelog.broker.log.disk import DIRECT_BYTES, Disk

logger = logging.getLogger(__name__)

_CHUNK_BYTES = 1024 * 1024


def ensure_on_device(disk: Disk, path: str, position: int = 0) -> bool:
    """Makes what the file shows from `position` on durable. True if that took a new file of the same name."""
    if is_on_device(disk, path, position):
        return False
    logger.warning("%s: the device does not hold what was written to it; it is copied to a new file", path)
    _replace_by_copy(disk, path)
    return True


def is_on_device(disk: Disk, path: str, position: int = 0) -> bool:
    """Whether the device is known to hold what the file shows from `position` on. Whatever is dirty is synced."""
    fd = disk.open(path)
    try:
        disk.fdatasync(fd)
        direct = disk.open_direct(path)
        try:
            return _are_equal(disk, fd, direct, position - position % DIRECT_BYTES)
        finally:
            disk.close(direct)
    except OSError:
        return False
    finally:
        disk.close(fd)


def _are_equal(disk: Disk, fd: int, direct: int, position: int) -> bool:
    end = disk.size_bytes(fd)
    if position >= end:
        return True
    buffer_bytes = min(_CHUNK_BYTES, end - position)
    with mmap(-1, buffer_bytes + -buffer_bytes % DIRECT_BYTES) as buffer:
        while position < end:
            size_bytes = min(disk.pread_direct(direct, buffer, position), end - position)
            if not size_bytes or buffer[:size_bytes] != disk.pread(fd, size_bytes, position):
                return False
            position += size_bytes
    return True


def _replace_by_copy(disk: Disk, path: str) -> None:
    temporary = path + ".tmp"
    try:
        _copy(disk, path, temporary)
        disk.rename(temporary, path)
    except BaseException:
        disk.unlink_if_exists(temporary)
        raise
    disk.fsync_dir(os.path.dirname(path))


def _copy(disk: Disk, path: str, new_path: str) -> None:
    source = disk.open(path)
    try:
        target = disk.open(new_path, writable=True, create=True)
        try:
            disk.copy_mode(source, target)
            disk.truncate(target, 0)
            end = disk.size_bytes(source)
            for position in range(0, end, _CHUNK_BYTES):
                chunk = disk.pread_exactly(source, min(_CHUNK_BYTES, end - position), position)
                disk.pwrite_all(target, chunk, position)
            disk.fdatasync(target)
        finally:
            disk.close(target)
    finally:
        disk.close(source)
