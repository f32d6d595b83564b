"""Removing the files of deleted segments and partitions, the slow half in another thread.

`take` forgets what is due and closes it; `remove` then only knows paths. Whatever a crash leaves in between is
found by its name at the next start.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from oncelog.broker.log.file_names import SEGMENT_SUFFIXES
from oncelog.named_tuple import NamedTuple

if TYPE_CHECKING:
    from oncelog.broker.log.disk import Disk
    from oncelog.broker.log.log_manager import LogManager


class DoomedFiles(NamedTuple):
    files: list[str]
    directories: list[str]
    next_ms: int | None
    """When the next files are due; None if there are none."""


def take(logs: LogManager, now_ms: int) -> DoomedFiles:
    files: list[str] = []
    waiting: list[int] = []
    for log in logs.logs.values():
        if not log.doomed:
            continue
        for when_ms, segment in log.doomed:
            if when_ms <= now_ms:
                # For good: an answer that is still being sent must not go on from another file of that name.
                segment.retire()
                files += [segment.path(kind) for kind in SEGMENT_SUFFIXES]
            else:
                waiting.append(when_ms)
        log.doomed = [(when_ms, segment) for when_ms, segment in log.doomed if when_ms > now_ms]
    directories = [path for when_ms, path in logs.doomed if when_ms <= now_ms]
    logs.doomed = [(when_ms, path) for when_ms, path in logs.doomed if when_ms > now_ms]
    waiting += [when_ms for when_ms, _ in logs.doomed]
    return DoomedFiles(files, directories, min(waiting, default=None))


def remove(disk: Disk, doomed: DoomedFiles) -> None:
    """A partition may be deleted meanwhile, and with its directory the files of its segments move away."""
    for path in doomed.files:
        disk.unlink_if_exists(path)
    for directory in doomed.directories:
        for name in disk.listdir(directory):
            disk.unlink(os.path.join(directory, name))
        disk.rmdir(directory)
