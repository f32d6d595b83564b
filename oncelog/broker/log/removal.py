"""Taking things out of a log: old segments, a tail that was never agreed on, everything.

The order of the steps is what makes them safe. From the front, segments go oldest first; from the end, newest
first; so whatever a crash leaves is one contiguous log. Names that went away at the end are synced before
anything is appended in their place: a segment that came back after a power cut would overlap new records.
"""

from __future__ import annotations

from bisect import bisect_left
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from oncelog.broker.log import recovery, stray_snapshots
from oncelog.broker.log.file_names import DELETED, SEGMENT_SUFFIXES
from oncelog.broker.log.segment import Segment

if TYPE_CHECKING:
    from oncelog.broker.log.disk import Disk
    from oncelog.broker.log.partition_log import PartitionLog
    from oncelog.broker.log.steps import Steps

SEGMENTS_AT_ONCE = 8
"""How many segments a step takes out: about 2 ms of renaming files."""


def delete_segments_before(log: PartitionLog, offset: int, now_ms: int) -> Steps[list[Segment]]:
    """Nothing else may take segments out of the log until it has ended. It ends early if the log goes offline.

    Segments that recovery would need for the state of the producers stay, see `large_snapshots`.
    """
    removed: list[Segment] = []
    offset = _start_max(log, offset)
    with log.storage_errors():
        while count := min(log.segments.floor_index(offset), SEGMENTS_AT_ONCE):
            if not (yield from _rename_first(log, count)):
                break
            removed += _forget_first(log, count, now_ms)
    return removed


def _start_max(log: PartitionLog, offset: int) -> int:
    """Where the log may start at most: recovery must find a snapshot that knows the producers of what is deleted."""
    bases, snapshots = log.segments.base_offsets, log.snapshot_offsets
    start = bases[log.segments.floor_index(offset)]
    recovered_from = bases[log.segments.floor_index(log.checkpointed_recovery_point)]
    i = bisect_left(snapshots, start)
    if i < len(snapshots) and snapshots[i] <= max(start, recovered_from):
        return start
    while i and not log.segments.begins_at(snapshots[i - 1]):
        i -= 1
    return snapshots[i - 1] if i else bases[0]


def _rename_first(log: PartitionLog, count: int) -> Steps[bool]:
    """Gives the files of the first segments the names of deleted ones; False if the log went offline meanwhile."""
    start = log.segments.base_offsets[count]
    # Nobody may read them any more, and a checkpoint that is written now says so.
    move_log_start(log, start)
    i = bisect_left(log.snapshot_offsets, start)
    if i < len(log.snapshot_offsets):
        # It is all that is left of producers whose records are deleted.
        path = log.snapshot_path(log.snapshot_offsets[i])
        yield partial(_sync_snapshot, log.disk, log.directory, path)
        if log.is_offline:
            return False
    for segment in log.segments.items[:count]:
        segment.rename(DELETED)
    # A later checkpoint may leave out where the log starts; then only the names keep deleted records away.
    yield partial(log.disk.fsync_dir, log.directory)
    return not log.is_offline


def _sync_snapshot(disk: Disk, directory: str, path: str) -> None:
    fd = disk.open(path)
    try:
        disk.fdatasync(fd)
    finally:
        disk.close(fd)
    disk.fsync_dir(directory)


def _forget_first(log: PartitionLog, count: int, now_ms: int) -> list[Segment]:
    removed = log.segments.replace(0, count, [])
    log.doomed.add(removed, now_ms + log.config.file_delete_delay_ms)
    log.dirty_segments = [segment for segment in log.dirty_segments if segment not in removed]
    log.positions.clear()
    stray_snapshots.remove(log, 0, log.segments.base_offsets[0])
    return removed


def move_log_start(log: PartitionLog, offset: int) -> None:
    if offset <= log.log_start_offset:
        return
    log.log_start_offset = offset
    log.epochs.truncate_from_start(offset)
    log.update_high_watermark(log.high_watermark)


def remove_files(log: PartitionLog, now_ms: int) -> None:
    """A file that cannot be removed now is not worth a log; it is tried again at the next start."""
    for segment in log.doomed.take(now_ms):
        with suppress(OSError):
            segment.unlink()


def truncate_to(log: PartitionLog, offset: int, now_ms: int) -> bool:
    assert offset >= log.checkpointed_recovery_point, "the recovery point must be lowered on disk first"
    if offset >= log.end_offset:
        log.epochs.truncate_from_end(log.end_offset)
        return False
    if offset < log.segments.base_offsets[0]:
        truncate_fully_and_start_at(log, offset, now_ms)
        return True
    keep = log.segments.floor_index(offset)
    segment = log.segments.items[keep]
    found = segment.find(offset)
    _unlink_from(log, keep + 1)
    log.active = segment
    if found is None:
        end_offset = max(offset, segment.read_end()[0])
    else:
        position, header = found
        end_offset = min(offset, header.base_offset)
        segment.truncate(position, end_offset)
    _remove_snapshots_above(log, end_offset)
    log.disk.fsync_dir(log.directory)
    _set_end(log, end_offset)
    recovery.rebuild_producers(log, end_offset, now_ms)
    return True


def truncate_fully_and_start_at(log: PartitionLog, offset: int, now_ms: int) -> None:
    assert offset >= log.checkpointed_recovery_point, "the recovery point must be lowered on disk first"
    _unlink_from(log, 0)
    _remove_snapshots_above(log, -1)
    log.disk.fsync_dir(log.directory)
    log.log_start_offset = offset
    recovery.add_first_segment(log, offset, now_ms)
    _set_end(log, offset)
    log.epochs.clear()
    log.producers.load([], now_ms)


def _unlink_from(log: PartitionLog, index: int) -> None:
    removed = log.segments.replace(index, len(log.segments.items), [])
    for segment in reversed(removed):
        if segment in log.dirty_segments:
            log.dirty_segments.remove(segment)
        segment.unlink()


def _remove_snapshots_above(log: PartitionLog, offset: int) -> None:
    for snapshot in [o for o in log.snapshot_offsets if o > offset]:
        log.disk.unlink_if_exists(log.snapshot_path(snapshot))
        log.snapshot_offsets.remove(snapshot)


def _set_end(log: PartitionLog, end_offset: int) -> None:
    log.end_offset = end_offset
    log.log_start_offset = min(log.log_start_offset, end_offset)
    log.recovery_point = min(log.recovery_point, end_offset)
    if log.ticket is not None:
        # What the flush under way syncs was cut off here; what comes in its place it does not cover.
        log.ticket.end_offset = min(log.ticket.end_offset, end_offset)
    log.positions.clear()
    log.epochs.truncate_from_end(end_offset)
    if log.epochs.dirty:
        log.write_epochs(durably=True)
    log.update_high_watermark(log.high_watermark)


def write_everything(log: PartitionLog) -> None:
    """Brings every file up to date, for a clean close."""
    if _is_unwritten(log):
        # Whatever a power cut takes of it is made again when it is opened.
        log.dirty_directories = set()
        log.dirty_paths = []
        return
    if log.epochs.dirty:
        log.write_epochs(durably=True)
    if log.closed_at == log.end_offset and log.closed_at in log.snapshot_offsets:
        return
    log.producers.snapshot = None
    log.forget_closing()
    log.active.cut_room()
    for fd in log.active.write_indexes():
        log.add_dirty_file(fd)
    # The snapshot at the end comes after the indexes are on disk: it is what shows that they are.
    log.sync_dirty_files()
    log.active.dirty = True
    if log.end_offset not in log.snapshot_offsets:
        log.write_snapshot(log.end_offset)


def _is_unwritten(log: PartitionLog) -> bool:
    """True if nothing was ever appended to the log, and so nothing of it is worth a sync."""
    return (
        log.end_offset == 0
        and not log.active.dirty
        and not (log.dirty_segments or log.dirty_fds or log.producers.entries)
        and log.ticket is None
        and not any(
            size for name, size in log.disk.file_sizes(log.directory).items() if name.endswith(SEGMENT_SUFFIXES)
        )
    )


def release(log: PartitionLog) -> None:
    """Gives up all descriptors, for good."""
    if log.ticket is not None:
        log.ticket = None
    for segment in log.segments.items:
        segment.retire()
    for segment in log.doomed:
        segment.retire()
    for fd in log.dirty_fds:
        log.disk.close(fd)
    log.dirty_fds = []
    log.go_offline("it is closed")
