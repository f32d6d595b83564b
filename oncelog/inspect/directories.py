"""Finds partitions below a data directory, and what the data directory knows about each of them."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from pathlib import Path

from oncelog.broker.log import checkpoints
from oncelog.broker.log.disk import Disk, StorageError
from oncelog.broker.log.file_names import LOG, offset_of_file, offsets_with_suffix
from oncelog.broker.log.log_manager import LOCK
from oncelog.named_tuple import NamedTuple

_PARTITION = re.compile(r"(.+)-(\d+)")
_COMPACTED_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})

CHECKPOINTS = (
    checkpoints.RECOVERY_POINTS,
    checkpoints.LOG_START_OFFSETS,
    checkpoints.HIGH_WATERMARKS,
    checkpoints.CLEANER_OFFSETS,
)


class PartitionDirectory(NamedTuple):
    """A partition's directory, with the promises that its surroundings make about it."""

    path: Path
    topic: str
    partition: int
    complete_until: int | None
    """Below this offset the broker has put everything on disk, indexes as well; None: everywhere.

    After a crash only what is below the recovery point is promised; the rest is for recovery to mend.
    """
    compacted_until: int | None
    """Below this offset compaction may have taken records out; None: everywhere."""
    log_start_offset: int | None
    """Records below it were deleted, also where their segment is still there; None if that is not known."""

    def is_complete(self, offset: int) -> bool:
        return self.complete_until is None or offset < self.complete_until

    def is_compacted(self, offset: int) -> bool:
        return self.compacted_until is None or offset < self.compacted_until


class DataDirectory(NamedTuple):
    """The root of a broker's data, as far as its small files can be read."""

    path: Path
    clean: bool
    offsets: dict[str, dict[tuple[str, int], int]]
    """For each checkpoint file that is there, its offsets by topic and partition."""
    damaged: dict[str, str]
    """Checkpoint files that cannot be read, and why."""


def partition_name(path: Path) -> tuple[str, int] | None:
    found = _PARTITION.fullmatch(path.name)
    return (found[1], int(found[2])) if found else None


def is_partition(path: Path) -> bool:
    return path.is_dir() and any(
        entry.name.endswith(LOG) and offset_of_file(entry.name) is not None for entry in path.iterdir()
    )


def read_data_directory(path: Path) -> DataDirectory:
    offsets, damaged = {}, {}
    for name in CHECKPOINTS:
        if (path / name).exists():
            try:
                offsets[name] = checkpoints.read_offsets(Disk(), str(path / name))
            except StorageError as error:
                damaged[name] = str(error)
    return DataDirectory(path, (path / checkpoints.CLEAN_SHUTDOWN).exists(), offsets, damaged)


def is_in_use(path: Path) -> bool:
    """Whether a broker holds the lock of the data directory at `path`, or of the one that `path` is in."""
    try:
        fd = os.open((path.parent if is_partition(path) else path) / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        # Apache Kafka's lock is of the other kind.
        fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def find_partitions(path: Path, *, compacted: bool = False) -> Iterator[PartitionDirectory]:
    """The partition at `path`, or those in the data directory `path`; nothing if it is neither."""
    if is_partition(path):
        yield describe_partition(path, read_data_directory(path.parent), compacted=compacted)
        return
    root = read_data_directory(path)
    for entry in sorted(path.iterdir()):
        if partition_name(entry) is not None and is_partition(entry):
            yield describe_partition(entry, root, compacted=compacted)


def describe_partition(path: Path, root: DataDirectory, *, compacted: bool = False) -> PartitionDirectory:
    topic, partition = partition_name(path.resolve()) or (path.name, 0)
    complete_until = None if root.clean else _recovery_point(path, root, (topic, partition))
    cleaned = root.offsets.get(checkpoints.CLEANER_OFFSETS, {})
    compacted_until: int | None = cleaned.get((topic, partition), 0)
    if compacted or topic in _COMPACTED_TOPICS or checkpoints.CLEANER_OFFSETS in root.damaged:
        compacted_until = None
    starts = root.offsets.get(checkpoints.LOG_START_OFFSETS, {})
    # A broker that crashed may have moved the start since it wrote the checkpoint.
    is_start_known = root.clean and checkpoints.LOG_START_OFFSETS not in root.damaged
    log_start_offset = starts.get((topic, partition), 0) if is_start_known else None
    return PartitionDirectory(path, topic, partition, complete_until, compacted_until, log_start_offset)


def _recovery_point(path: Path, root: DataDirectory, key: tuple[str, int]) -> int:
    """Without a recovery point nothing vouches for the last segment, which the broker was writing."""
    known = root.offsets.get(checkpoints.RECOVERY_POINTS, {}).get(key)
    if known is not None:
        return known
    bases = offsets_with_suffix([entry.name for entry in path.iterdir()], LOG)
    return bases[-1] if bases else 0
