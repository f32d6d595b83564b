"""An ext4 on a loop device whose writes can be made to fail, and whose power can be cut.

The image lies in a tmpfs with no space to spare. A hole that is punched into the image cannot be filled as long as the
tmpfs is full, so a write to that block of the device fails, and to no other. Requests of one block each keep the loop
driver from writing a part of a larger one, which it reports as a success. A power cut is a copy of the image that is
made without unmounting it: it has what reached the device, and nothing of the page cache.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path

IMAGE_BYTES = 48 << 20
BLOCK_BYTES = 4096
_FIBMAP = 1
_TOOLS = ("mkfs.ext4", "dumpe2fs", "losetup", "mount", "umount", "fallocate")


def run(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@cache
def why_not() -> str | None:
    """Why there is no such disk here, if so."""
    if os.geteuid() != 0:
        return "only root may mount a loop device"
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing:
        return f"{', '.join(missing)} not found (apt-get install e2fsprogs mount)"
    try:
        run("losetup", "--find")
    except subprocess.CalledProcessError as error:
        return f"no loop device is free: {error.stderr.strip()}"
    return None


class LoopDisk:
    """Made by `loop_disk`. The file system is at `path`."""

    def __init__(self, directory: Path, exit_stack: ExitStack) -> None:
        self.path = directory / "disk"
        self._directory = directory
        self._backing = directory / "backing"
        self._image = self._backing / "image"
        self._ballast = self._backing / "ballast"
        self._exit_stack = exit_stack
        self._cut_count = 0
        self._mount_tmpfs()
        run("fallocate", "-l", str(IMAGE_BYTES), self._image)
        options = "nodiscard,lazy_itable_init=0,lazy_journal_init=0"
        run("mkfs.ext4", "-q", "-b", str(BLOCK_BYTES), "-m", "0", "-E", options, self._image)
        # Making the file system has punched holes for zeros.
        run("fallocate", "-l", str(IMAGE_BYTES), self._image)
        self._device = self._mount(self._image, self.path)

    def _mount_tmpfs(self) -> None:
        self._backing.mkdir()
        run("mount", "-t", "tmpfs", "-o", f"size={IMAGE_BYTES + (1 << 20)}", "tmpfs", self._backing)
        self._exit_stack.callback(run, "umount", self._backing)

    def _mount(self, image: Path, path: Path) -> str:
        device = run("losetup", "--find", "--show", image)
        self._exit_stack.callback(run, "losetup", "--detach", device)
        Path(f"/sys/block/{Path(device).name}/queue/max_sectors_kb").write_text(str(BLOCK_BYTES // 1024))
        path.mkdir()
        run("mount", device, path)
        self._exit_stack.callback(run, "umount", path)
        return device

    def fail_writes_behind(self, file: Path, position: int) -> None:
        """From now on writes fail to the blocks of a file from `position` on, and to blocks that are free now."""
        os.sync()
        for start, count in (*self._blocks_behind(file, position), *self._free_blocks()):
            where = ("-o", str(start * BLOCK_BYTES), "-l", str(count * BLOCK_BYTES))
            run("fallocate", "--punch-hole", *where, self._image)
        with suppress(OSError), self._ballast.open("wb", buffering=0) as ballast:
            while True:
                ballast.write(bytes(BLOCK_BYTES))

    def heal(self) -> None:
        self._ballast.unlink(missing_ok=True)

    def _blocks_behind(self, file: Path, position: int) -> Iterator[tuple[int, int]]:
        with file.open("rb") as opened:
            size = os.fstat(opened.fileno()).st_size
            for number in range(-(-position // BLOCK_BYTES), -(-size // BLOCK_BYTES)):
                (block,) = struct.unpack("i", fcntl.ioctl(opened, _FIBMAP, struct.pack("i", number)))
                yield block, 1

    def _free_blocks(self) -> Iterator[tuple[int, int]]:
        for line in re.findall(r"^  Free blocks: (.*)$", run("dumpe2fs", self._device), re.MULTILINE):
            for part in line.split(", "):
                if part:
                    first, _, last = part.partition("-")
                    yield int(first), int(last or first) - int(first) + 1

    def cut_power(self) -> Path:
        """Where the file system is mounted as a power cut would leave it now."""
        self._cut_count += 1
        image = self._directory / f"image-{self._cut_count}"
        shutil.copyfile(self._image, image)
        path = self._directory / f"disk-{self._cut_count}"
        self._mount(image, path)
        return path


@contextmanager
def loop_disk(directory: Path) -> Iterator[LoopDisk]:
    with ExitStack() as exit_stack:
        yield LoopDisk(directory, exit_stack)
