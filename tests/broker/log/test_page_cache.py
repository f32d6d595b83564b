from __future__ import annotations

import errno
import os
import random
import stat
from pathlib import Path

import pytest
from simulated_disk import BLOCK_BYTES, SimulatedDisk

from oncelog.broker.log.disk import Disk
from oncelog.broker.log.page_cache import ensure_on_device, is_on_device

PATH = "/f"


def write(disk: Disk, path: str, data: bytes, position: int = 0) -> int:
    fd = disk.open(path, writable=True, create=True)
    disk.pwrite_all(fd, data, position)
    return fd


def fail_sync(disk: SimulatedDisk, fd: int) -> None:
    disk.fail("fdatasync", errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        disk.fdatasync(fd)


def disk_with_lost_block() -> SimulatedDisk:
    """Two blocks that are on the device, and one whose write failed."""
    disk = SimulatedDisk()
    fd = write(disk, PATH, b"a" * 2 * BLOCK_BYTES)
    disk.fdatasync(fd)
    disk.fsync_dir("/")
    disk.pwrite(fd, b"b" * BLOCK_BYTES, 2 * BLOCK_BYTES)
    disk.rng = random.Random(0)
    fail_sync(disk, fd)
    disk.fdatasync(fd)
    disk.close(fd)
    return disk


def after_power_cut(disk: SimulatedDisk) -> bytes:
    return disk.after_power_cut(random.Random(1)).read_file(PATH)


def test_a_failed_sync_leaves_what_can_be_read_and_is_not_there() -> None:
    disk = disk_with_lost_block()
    content = disk.read_file(PATH)
    assert content.endswith(b"b" * BLOCK_BYTES)
    assert after_power_cut(disk) == content[: 2 * BLOCK_BYTES] + bytes(BLOCK_BYTES)
    # Nor is it enough to write it again.
    fd = write(disk, PATH, content)
    disk.fdatasync(fd)
    assert after_power_cut(disk) != content


def test_a_file_is_copied_if_the_device_lacks_a_part_of_it() -> None:
    disk = disk_with_lost_block()
    content = disk.read_file(PATH)
    assert not is_on_device(disk, PATH)
    assert ensure_on_device(disk, PATH)
    assert disk.read_file(PATH) == after_power_cut(disk) == content
    assert is_on_device(disk, PATH)
    assert not ensure_on_device(disk, PATH)
    assert disk.listdir("/") == ["f"]
    assert not disk.descriptors


def test_what_is_dirty_is_synced_and_needs_no_copy() -> None:
    disk = SimulatedDisk()
    write(disk, PATH, b"a" * 100)
    disk.fsync_dir("/")
    assert not ensure_on_device(disk, PATH)
    assert after_power_cut(disk) == b"a" * 100


@pytest.mark.parametrize("kind", ["fdatasync", "open_direct", "pread_direct"])
def test_a_file_is_copied_if_the_device_cannot_be_asked(kind: str) -> None:
    disk = SimulatedDisk()
    fd = write(disk, PATH, b"a" * 100)
    disk.fdatasync(fd)
    disk.fail(kind, errno.EINVAL)
    assert ensure_on_device(disk, PATH)
    assert after_power_cut(disk) == b"a" * 100


@pytest.mark.parametrize("kind", ["create", "pwrite", "fdatasync", "rename"])
def test_a_copy_that_fails_leaves_the_file_as_it_was(kind: str) -> None:
    disk = disk_with_lost_block()
    content = disk.read_file(PATH)
    disk.fail("open_direct", errno.EINVAL)
    # The first sync is that of the file itself.
    disk.fail(kind, *([0] if kind == "fdatasync" else []), errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        ensure_on_device(disk, PATH)
    assert disk.read_file(PATH) == content
    assert disk.listdir("/") == ["f"]
    assert ensure_on_device(disk, PATH)
    assert after_power_cut(disk) == content


def test_a_real_file(tmp_path: Path) -> None:
    disk = Disk()
    path = str(tmp_path / "f")
    content = os.urandom(3 * 1024 * 1024 + 123)
    fd = write(disk, path, content)
    try:
        disk.close(disk.open_direct(path))
    except OSError:
        pytest.skip("this file system has no direct reads")
    assert is_on_device(disk, path)
    assert is_on_device(disk, path, 5000)
    assert is_on_device(disk, path, len(content))
    disk.pwrite_all(fd, b"changed", 5000)
    assert not ensure_on_device(disk, path)
    disk.close(fd)


def test_a_copy_of_a_real_file(tmp_path: Path) -> None:
    class WithoutDirectReads(Disk):
        def open_direct(self, path: str) -> int:
            raise OSError(errno.EINVAL, "no direct reads", path)

    path = tmp_path / "f"
    content = os.urandom(3 * 1024 * 1024 + 123)
    path.write_bytes(content)
    path.chmod(0o600)
    inode = path.stat().st_ino
    assert ensure_on_device(WithoutDirectReads(), str(path), 5000)
    assert path.read_bytes() == content
    assert path.stat().st_ino != inode
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["f"]
