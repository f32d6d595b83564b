"""Leader epochs of a partition (`leader-epoch-checkpoint`): from which offset on each leader wrote.

The file has a version line `0`, a line with the number of entries, and one line `epoch start-offset` per
epoch, ascending in both. A follower or a consumer finds with it the point up to which two logs agree
(KIP-101, KIP-279, KIP-320). Every batch carries its leader epoch, so a damaged file is rebuilt from the log.
"""

from __future__ import annotations

import os
from bisect import bisect_right

from oncelog.broker.log import checkpoints
from oncelog.broker.log.disk import Disk

FILE_NAME = "leader-epoch-checkpoint"
UNDEFINED = (-1, -1)


class LeaderEpochs:
    """Epochs in memory; the owner writes the file when `dirty` says so."""

    __slots__ = ("dirty", "epochs", "latest", "start_offsets")

    def __init__(self, entries: list[tuple[int, int]] | None = None) -> None:
        self.epochs: list[int] = []
        self.start_offsets: list[int] = []
        self.latest = -1
        for epoch, start_offset in entries or []:
            self.assign(epoch, start_offset)
        self.dirty = False

    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self.epochs, self.start_offsets, strict=True))

    def assign(self, epoch: int, start_offset: int) -> None:
        """Begins an epoch. Entries that contradict it were never replicated and are dropped."""
        if self.epochs and epoch == self.epochs[-1] and start_offset >= self.start_offsets[-1]:
            return
        while self.epochs and (self.epochs[-1] >= epoch or self.start_offsets[-1] >= start_offset):
            self.epochs.pop()
            self.start_offsets.pop()
        self.epochs.append(epoch)
        self.start_offsets.append(start_offset)
        self._changed()

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(epoch, end offset) of the largest epoch not above the one asked for; (-1, -1) if unknown."""
        if epoch == UNDEFINED[0] or not self.epochs or epoch > self.epochs[-1]:
            return UNDEFINED
        if epoch == self.epochs[-1]:
            return epoch, log_end_offset
        i = bisect_right(self.epochs, epoch)
        if i == 0:
            # The data of that epoch is gone; the log's first known epoch begins after it.
            return epoch, self.start_offsets[0]
        return self.epochs[i - 1], self.start_offsets[i]

    def epoch_for_offset(self, offset: int) -> int:
        i = bisect_right(self.start_offsets, offset)
        return self.epochs[i - 1] if i else -1

    def truncate_from_end(self, end_offset: int) -> None:
        """Drops epochs that begin at or after the new end of the log."""
        if self.start_offsets and self.start_offsets[-1] >= end_offset:
            while self.start_offsets and self.start_offsets[-1] >= end_offset:
                self.epochs.pop()
                self.start_offsets.pop()
            self._changed()

    def truncate_from_start(self, start_offset: int) -> None:
        """Drops epochs that end before the new start; the one that covers it begins there now."""
        i = bisect_right(self.start_offsets, start_offset)
        if i == 0 or (i == 1 and self.start_offsets[0] == start_offset):
            return
        del self.epochs[: i - 1]
        del self.start_offsets[: i - 1]
        self.start_offsets[0] = start_offset
        self._changed()

    def clear(self) -> None:
        if self.epochs:
            self.epochs.clear()
            self.start_offsets.clear()
            self._changed()

    def _changed(self) -> None:
        self.latest = self.epochs[-1] if self.epochs else -1
        self.dirty = True

    def encode(self) -> bytes:
        return checkpoints.encode_lines([f"{epoch} {start}" for epoch, start in self.entries()])


def read(disk: Disk, directory: str) -> LeaderEpochs | None:
    """None if the file is absent or damaged; the caller rebuilds the epochs from the log then.

    It is written in place, so a power cut may leave its beginning, or nothing of it. The last line's end shows that it
    is whole: a number that lost digits is a number as well.
    """
    try:
        data = disk.read_file(os.path.join(directory, FILE_NAME))
        if not data.endswith(b"\n"):
            return None
        lines = checkpoints.decode_lines(data)
        return LeaderEpochs([(int(epoch), int(start)) for epoch, start in map(str.split, lines)])
    except (FileNotFoundError, ValueError):
        return None
