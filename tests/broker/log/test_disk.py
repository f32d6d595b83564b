from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from oncelog.broker.log.disk import Disk


def test_files(tmp_path: Path) -> None:
    disk = Disk()
    path = str(tmp_path / "f")
    fd = disk.open(path, writable=True, create=True)
    disk.pwrite_all(fd, b"hello world", 0)
    disk.truncate(fd, 5)
    disk.fdatasync(fd)
    assert disk.pread_exactly(fd, 5, 0) == b"hello"
    with pytest.raises(OSError, match="3 bytes before 8") as raised:
        disk.pread_exactly(fd, 8, 0)
    assert raised.value.errno == errno.EIO
    other = disk.dup(fd)
    disk.close(fd)
    assert disk.size_bytes(other) == 5
    disk.close(other)
    disk.rename(path, path + "2")
    disk.fsync_dir(str(tmp_path))
    assert disk.listdir(str(tmp_path)) == ["f2"]
    assert disk.file_sizes(str(tmp_path)) == {"f2": 5}
    assert disk.unlink_if_exists(path + "2")
    assert not disk.unlink_if_exists(path + "2")
    disk.mkdir(path)
    assert disk.exists(path)
    assert disk.file_sizes(str(tmp_path)) == {}
    disk.rmdir(path)


def test_small_files_are_replaced_whole(tmp_path: Path) -> None:
    disk = Disk()
    path = str(tmp_path / "f")
    disk.write_file_durably(path, b"a long content")
    disk.write_file_durably(path, b"short")
    assert disk.read_file(path) == b"short"
    assert disk.listdir(str(tmp_path)) == ["f"]


def test_a_short_write_is_continued(tmp_path: Path) -> None:
    class Slow(Disk):
        def pwrite(self, fd: int, data: bytes | bytearray | memoryview, position: int) -> int:
            return super().pwrite(fd, memoryview(data)[:3], position)

    disk = Slow()
    fd = disk.open(str(tmp_path / "f"), writable=True, create=True)
    disk.pwrite_all(fd, b"0123456789", 0)
    assert disk.pread(fd, 99, 0) == b"0123456789"
    disk.close(fd)


def test_a_directory_is_locked_once(tmp_path: Path) -> None:
    disk = Disk()
    path = str(tmp_path / ".lock")
    fd = disk.lock(path)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(BlockingIOError):
        disk.lock(path)
    assert len(os.listdir("/proc/self/fd")) == before
    disk.close(fd)
    disk.close(disk.lock(path))
