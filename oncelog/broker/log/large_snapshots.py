"""Snapshots of very many producers at the beginning of a segment.

To encode one takes half a microsecond per producer, and clients can make hundreds of thousands of them. So a roll only
begins a large snapshot; it is encoded in steps, and written by another thread. If the log rolls again before that is
done, its next segment has no snapshot. Without one, recovery begins at an older one and reads more of the log, and
retention keeps the segments that this takes (`removal.py`).
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from oncelog.broker.log.producer_snapshot import GradualSnapshot

if TYPE_CHECKING:
    from oncelog.broker.log.log_writer import LogWriter
    from oncelog.broker.log.steps import Steps

ENTRIES_MIN = 2000
_ENTRIES_AT_ONCE = 500


def maybe_begin(log: LogWriter, offset: int) -> bool:
    """Begins the snapshot of the producers as they are now, if they are many; False if they are few."""
    producers = log.producers
    if len(producers.entries) < ENTRIES_MIN:
        return False
    if producers.snapshot is None:
        producers.snapshot = GradualSnapshot(offset, producers.slots)
        log.snapshots_due.add(log)
    return True


def write(log: LogWriter) -> Steps[None]:
    """Writes the snapshot that is due. If that fails, its segment has none."""
    snapshot = log.producers.snapshot
    if snapshot is None or log not in log.snapshots_due:
        return
    log.snapshots_due.remove(log)
    try:
        while snapshot.encode_some(_ENTRIES_AT_ONCE):
            yield None
            if _is_void(log, snapshot):
                return
        yield from _write_file(log, snapshot)
    finally:
        if log.producers.snapshot is snapshot:
            log.producers.snapshot = None


def _write_file(log: LogWriter, snapshot: GradualSnapshot) -> Steps[None]:
    path = log.snapshot_path(snapshot.offset)
    temporary = path + ".tmp"
    try:
        yield partial(snapshot.write, log.disk, temporary)
    except OSError:
        # On a full disk it would be in the way.
        with suppress(OSError):
            log.disk.unlink_if_exists(temporary)
        raise
    if _is_void(log, snapshot):
        log.disk.unlink_if_exists(temporary)
        return
    log.disk.rename(temporary, path)
    log.note_snapshot(snapshot.offset)
    with log.storage_errors():
        yield partial(log.disk.fsync_dir, log.directory)


def _is_void(log: LogWriter, snapshot: GradualSnapshot) -> bool:
    """Whether the log was closed or truncated since the snapshot was begun."""
    return log.is_offline or log.producers.snapshot is not snapshot
