"""When a log that nobody has opened since the broker's start will need to be opened for its own sake.

Nothing is written to such a log, so one look at its directory decides for all time: its size does not change,
and its first segment expires at a moment that is known. A broker with ten thousand idle partitions spends
nothing on them until then, and holds nothing of them in memory but that moment.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from oncelog.broker.log import entry_file, time_index
from oncelog.broker.log.file_names import (
    DELETED,
    LOG,
    TIME_INDEX,
    offset_file_name,
    offsets_with_suffix,
)
from oncelog.broker.log.log_config import LONG_MAX

if TYPE_CHECKING:
    from oncelog.broker.log.disk import Disk
    from oncelog.broker.log.log_config import LogConfig

NOW = 0
NEVER = LONG_MAX


def due_ms(disk: Disk, directory: str, config: LogConfig, log_start_offset: int, clean_offset: int) -> int:
    """The time from which on retention or compaction may find something to do in the log."""
    sizes = disk.file_sizes(directory)
    if any(name.endswith(DELETED) for name in sizes):
        # Files whose removal was due after the last stop; opening the log removes them.
        return NOW
    bases = offsets_with_suffix(sizes, LOG)
    if len(bases) > 1 and bases[1] <= log_start_offset:
        return NOW
    log_sizes = [sizes[offset_file_name(base, LOG)] for base in bases]
    if config.cleanup_compact and _is_dirty(bases, log_sizes, config, clean_offset):
        return NOW
    if not config.cleanup_delete or not any(log_sizes):
        return NEVER
    if 0 <= config.retention_bytes <= sum(log_sizes) - log_sizes[0]:
        return NOW
    if config.retention_ms < 0:
        return NEVER
    first = next(base for base, size in zip(bases, log_sizes, strict=True) if size)
    return _newest_ms(disk, directory, first, sizes) + config.retention_ms + 1


def _is_dirty(bases: list[int], log_sizes: list[int], config: LogConfig, clean_offset: int) -> bool:
    """As `compaction.plan_cleaning` would see it, if nothing but size and age mattered."""
    closed = list(zip(bases[:-1], bases[1:], log_sizes[:-1], strict=True))
    clean_bytes = sum(size for base, _, size in closed if base < clean_offset)
    dirty_bytes = sum(size for _, end, size in closed if end > clean_offset)
    if not dirty_bytes:
        return False
    is_over_ratio = dirty_bytes / (clean_bytes + dirty_bytes) > config.min_cleanable_dirty_ratio
    return is_over_ratio or config.max_compaction_lag_ms < LONG_MAX


def _newest_ms(disk: Disk, directory: str, base: int, sizes: dict[str, int]) -> int:
    """The newest timestamp of a segment: the last entry of its time index, else the time of the file."""
    name = offset_file_name(base, TIME_INDEX)
    count = sizes.get(name, 0) // time_index.ENTRY_SIZE
    if count:
        path = os.path.join(directory, name)
        timestamp = int(entry_file.read_entry(disk, path, time_index.ENTRY, count - 1)[0])
        if timestamp >= 0:
            return timestamp
    return disk.modified_ms(os.path.join(directory, offset_file_name(base, LOG)))
