"""The fsck of data directories: each partition, and the checkpoints that speak about it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from oncelog.broker.log import checkpoints
from oncelog.broker.log.file_names import LOG
from oncelog.inspect.directories import (
    DataDirectory,
    PartitionDirectory,
    find_partitions,
    is_partition,
    read_data_directory,
)
from oncelog.inspect.findings import Finding, error
from oncelog.inspect.verify import PartitionVerifier, Progress, Totals

_WHAT = {
    checkpoints.RECOVERY_POINTS: "was on disk up to",
    checkpoints.LOG_START_OFFSETS: "begins at",
    checkpoints.HIGH_WATERMARKS: "was readable up to",
    checkpoints.CLEANER_OFFSETS: "was compacted up to",
}


class NothingToVerify(Exception):
    """The path is neither a partition nor a directory of partitions."""


def find(path: Path, *, compacted: bool = False) -> list[PartitionDirectory]:
    """The partitions that `path` stands for."""
    if not path.is_dir():
        raise NothingToVerify(f"{path} is not a directory" if path.exists() else f"{path} does not exist")
    partitions = list(find_partitions(path, compacted=compacted))
    if not partitions:
        raise NothingToVerify(f"{path} is neither a partition nor a data directory with partitions")
    return partitions


def log_size_bytes(partitions: list[PartitionDirectory]) -> int:
    """How much there is to read."""
    return sum(
        entry.stat().st_size
        for partition in partitions
        for entry in partition.path.iterdir()
        if entry.name.endswith(LOG)
    )


def verify(path: Path, partitions: list[PartitionDirectory], totals: Totals, progress: Progress) -> Iterator[Finding]:
    """All findings about the partitions that `find` gave for `path`."""
    root = read_data_directory(path.parent if is_partition(path) else path)
    for name, problem in root.damaged.items():
        yield error("checkpoint", str(root.path / name), problem)
    for directory in partitions:
        verifier = PartitionVerifier(directory, totals, progress)
        yield from verifier.findings()
        yield from _check_promises(root, directory, verifier)


def _check_promises(
    root: DataDirectory, directory: PartitionDirectory, verifier: PartitionVerifier
) -> Iterator[Finding]:
    """No checkpoint may speak of offsets that the log does not have."""
    for name, offsets in root.offsets.items():
        offset = offsets.get((directory.topic, directory.partition))
        if offset is not None and offset > verifier.end_offset:
            message = f"it {_WHAT[name]} {offset} by {name}, but ends at {verifier.end_offset}"
            yield error("log-short", str(directory.path), message, offset=verifier.end_offset)
