"""Opening a log: from its files to a state that can be served.

After a clean close nothing is scanned: the end is found from the last index entry, the producers from the
newest snapshot. Otherwise every batch from the segment of the recovery point on is proven by its CRC, the
indexes and the producer state are built anew on the way, and the log ends at the first batch that is torn or
missing, or at the zeros that were room for more. That may only be behind the recovery point, where nothing was
promised; before it, the log is refused with a StorageError that says where, and nothing on disk is changed.

What is read behind the recovery point may be in the page cache only, also if a sync of it seems to succeed. The log
promises it from now on, so it is compared with the device first: see `page_cache`.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from oncelog.broker.log import checkpoints, leader_epochs, producer_snapshot, segment_swap, stray_snapshots
from oncelog.broker.log.batch_scan import CorruptBatch, is_zero, iter_checked, iter_headers
from oncelog.broker.log.disk import StorageError
from oncelog.broker.log.file_names import (
    INDEX,
    LOG,
    SEGMENT_SUFFIXES,
    SNAPSHOT,
    TIME_INDEX,
    offset_file_name,
    offset_of_file,
    offsets_with_suffix,
)
from oncelog.broker.log.leader_epochs import LeaderEpochs
from oncelog.broker.log.log_reader import read_batch
from oncelog.broker.log.page_cache import ensure_on_device
from oncelog.broker.log.replication import apply_batch, decode_marker
from oncelog.broker.log.segment import Segment
from oncelog.broker.log.segment_list import SegmentList
from oncelog.protocol.primitives import uuid_text
from oncelog.protocol.records.batch import BatchHeader
from oncelog.protocol.records.control import ControlType

if TYPE_CHECKING:
    from oncelog.broker.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)


def load(log: PartitionLog, clean: bool, recovery_point: int, log_start_offset: int, now_ms: int) -> None:
    """Fills a new `PartitionLog` from its directory, which is created if it is absent."""
    disk = log.disk
    if not disk.exists(log.directory):
        disk.mkdir(log.directory)
    sizes = segment_swap.finish_interrupted(disk, log.directory, disk.file_sizes(log.directory))
    _load_topic_id(log, sizes)
    log.snapshot_offsets = offsets_with_suffix(sizes, SNAPSHOT)
    log.log_start_offset = log_start_offset
    log.segments = SegmentList(_load_segments(log, sizes, now_ms))
    if not clean or recovery_point == 0 or not log.segments.size_bytes:
        # The process that made the directory, or a file in it, may have ended before it made the names durable.
        log.dirty_directories |= {log.directory, os.path.dirname(log.directory)}
    epochs = leader_epochs.read(disk, log.directory)
    log.epochs = LeaderEpochs() if epochs is None else epochs
    recovered = False
    if not log.segments.items:
        _check_nothing_lost(log, log_start_offset, recovery_point)
        add_first_segment(log, log_start_offset, now_ms)
        log.end_offset = log_start_offset
        _remove_snapshots(log, keep_up_to=log_start_offset)
    elif not _open_as_closed(log, clean, recovery_point, sizes):
        _recover(log, recovery_point, now_ms)
        recovered = True
    if epochs is None:
        _rebuild_epochs(log)
    _settle(log, recovered, now_ms)


def _load_topic_id(log: PartitionLog, sizes: dict[str, int]) -> None:
    if checkpoints.PARTITION_METADATA in sizes:
        known = checkpoints.read_partition_metadata(log.disk, log.directory)
        if known is not None:
            if log.topic_id is not None and log.topic_id != known:
                raise StorageError(
                    f"{log.directory} belongs to topic id {uuid_text(known)}, not {uuid_text(log.topic_id)}"
                )
            log.topic_id = known
            return
    if log.topic_id is not None:
        write_topic_id(log, log.topic_id)


def write_topic_id(log: PartitionLog, topic_id: bytes) -> None:
    """Note whose log it is, where that is not known: it is new, or a crash came before."""
    path = os.path.join(log.directory, checkpoints.PARTITION_METADATA)
    log.write_small_file(path, checkpoints.encode_partition_metadata(topic_id))
    log.topic_id = topic_id


def _load_segments(log: PartitionLog, sizes: dict[str, int], now_ms: int) -> list[Segment]:
    """The segments in the directory. Index files without records are what a deletion left; they go."""
    bases = offsets_with_suffix(sizes, LOG)
    known = set(bases)
    for name in sizes:
        offset = offset_of_file(name)
        if offset is not None and offset not in known and name.endswith(SEGMENT_SUFFIXES):
            log.disk.unlink(os.path.join(log.directory, name))
    return [Segment(log.disk, log.files, log.directory, base, sizes=sizes, created_ms=now_ms) for base in bases]


def add_first_segment(log: PartitionLog, offset: int, now_ms: int) -> None:
    segment = Segment(log.disk, log.files, log.directory, offset, sizes={}, created_ms=now_ms)
    segment.file()
    log.dirty_directories.add(log.directory)
    log.segments.append(segment)
    log.active = segment


def _check_nothing_lost(log: PartitionLog, end_offset: int, recovery_point: int) -> None:
    if end_offset < recovery_point:
        raise StorageError(f"{log.directory} ends at offset {end_offset}, but was on disk up to {recovery_point}")


# -- after a clean close -------------------------------------------------------------------------------------


def _open_as_closed(log: PartitionLog, clean: bool, recovery_point: int, sizes: dict[str, int]) -> bool:
    """Finds the end without a scan; False if the log was not closed properly, or does not look so.

    Also without a mark a log is as it was closed if its end, its recovery point and a snapshot coincide:
    most partitions of a broker that crashed were not written since its last clean stop.
    """
    log.active = log.segments.items[-1]
    has_indexes = all(offset_file_name(log.active.base_offset, kind) in sizes for kind in (INDEX, TIME_INDEX))
    is_empty = len(log.segments.items) == 1 and log.active.size_bytes == 0
    if not clean and not is_empty and not _has_good_snapshot(log, recovery_point):
        return False
    if log.active.size_bytes > log.config.index_interval_bytes and not has_indexes:
        return False
    try:
        end_offset, _ = log.active.read_end()
    except (CorruptBatch, OSError):
        return False
    if end_offset != recovery_point and not clean and not is_empty:
        return False
    _check_nothing_lost(log, end_offset, recovery_point)
    log.end_offset = end_offset
    if end_offset in log.snapshot_offsets and end_offset != log.active.base_offset:
        log.closed_at = end_offset
    return True


# -- after a crash -------------------------------------------------------------------------------------------


def _recover(log: PartitionLog, recovery_point: int, now_ms: int) -> None:
    segments = log.segments.items
    first = log.segments.floor_index(recovery_point)
    _ensure_small_files(log, segments[first].base_offset)
    last = len(segments) - 1
    end, cut = _find_end(log, first, recovery_point)
    # From here on the disk is changed; the log is known to be whole up to its recovery point.
    if cut is not None:
        is_final = cut[0] == last
        last, position = cut
        torn = segments[last]
        if not (is_final and is_zero(log.disk, torn.file(), position, torn.size_bytes)):
            lost = sum(segment.size_bytes for segment in segments[last:]) - position
            logger.info("%s: %d bytes behind offset %d were not written whole; they go", log.directory, lost, end)
        log.disk.truncate(torn.file(), position)
        torn.size_bytes = torn.file_bytes = position
    for segment in reversed(log.segments.replace(last + 1, len(segments), [])):
        segment.unlink()
    _remove_snapshots(log, keep_up_to=segments[first].base_offset)
    # One of them may have vouched for the indexes that are rebuilt now.
    log.disk.fsync_dir(log.directory)
    log.epochs.truncate_from_end(end)
    rebuild_producers(log, segments[first].base_offset, now_ms)
    for i in range(first, last + 1):
        log.active = segments[i]
        if i > first or (i > 0 and segments[i].base_offset not in log.snapshot_offsets):
            # Each segment but the first has one: it stays behind when the segments before it are deleted.
            log.write_snapshot(segments[i].base_offset)
        _rebuild_segment(log, segments[i], now_ms)
    log.end_offset = end


def _ensure_small_files(log: PartitionLog, offset: int) -> None:
    """What recovery does not make anew: leader epochs, the topic's id, and the producers as of `offset`."""
    paths = [os.path.join(log.directory, name) for name in (leader_epochs.FILE_NAME, checkpoints.PARTITION_METADATA)]
    for path in (*paths, log.snapshot_path(offset)):
        if log.disk.exists(path):
            ensure_on_device(log.disk, path)


def _find_end(log: PartitionLog, first: int, recovery_point: int) -> tuple[int, tuple[int, int] | None]:
    """The offset at which the log ends, and (segment index, position) where a file must be cut for it."""
    segments = log.segments.items
    end = segments[first].base_offset
    for i in range(first, len(segments)):
        segment = segments[i]
        if log.config.gaps_anywhere:
            end = max(end, segment.base_offset)
        if segment.base_offset != end:
            # A gap: the file before ends with a whole batch, but not where this one begins.
            _check_nothing_lost(log, end, recovery_point)
            return end, (i - 1, segments[i - 1].size_bytes)
        end, error = _check_batches(log, segment, end, recovery_point)
        if error is not None:
            if end < recovery_point:
                raise StorageError(
                    f"{segment.path(LOG)} is damaged at offset {end}, before the recovery point "
                    f"{recovery_point}: {error}"
                ) from error
            return end, (i, error.position)
    _check_nothing_lost(log, end, recovery_point)
    return end, None


def _check_batches(
    log: PartitionLog, segment: Segment, end: int, recovery_point: int
) -> tuple[int, CorruptBatch | None]:
    """The offset behind the last good batch of a segment, and what is wrong with the next one, if something is.

    Before the recovery point the batches are on disk. From there on the device may not hold what can be read.
    """
    gaps = log.config.cleanup_compact or log.config.gaps_anywhere
    position = 0
    try:
        if end < recovery_point:
            for at, header, _ in iter_checked(log.disk, segment.file(), 0, segment.size_bytes, end, gaps=gaps):
                if header.last_offset >= recovery_point:
                    position = at
                    break
                end = header.last_offset + 1
            else:
                return end, None
        if ensure_on_device(log.disk, segment.path(LOG), position):
            segment.close_file()
        for _, header, _ in iter_checked(log.disk, segment.file(), position, segment.size_bytes, end, gaps=gaps):
            end = header.last_offset + 1
    except CorruptBatch as error:
        return end, error
    return end, None


def _rebuild_segment(log: PartitionLog, segment: Segment, now_ms: int) -> None:
    """Builds indexes, epochs and producer state from a segment whose batches are known to be good.

    The indexes of the last segment stay in memory until it is closed, as if it had just been written: the disk may be
    full, and the log is to be read all the same. A crash finds them in doubt in any case.
    """
    segment.reset_indexes()
    interval = log.config.index_interval_bytes
    for position, header in iter_headers(log.disk, segment.file(), 0, segment.size_bytes):
        segment.note_batch(position, header.size_bytes, header.last_offset, header.max_timestamp, interval)
        if header.leader_epoch > log.epochs.latest:
            log.epochs.assign(header.leader_epoch, header.base_offset)
        if header.producer_id >= 0:
            batch = read_batch(segment, position, header) if header.is_control else b""
            apply_batch(log, header, batch, now_ms)
    if segment is not log.segments.items[-1]:
        log.dirty_fds += segment.write_indexes()
    log.dirty_directories.add(log.directory)
    segment.dirty = True
    if segment not in log.dirty_segments:
        log.dirty_segments.append(segment)


# -- producers -----------------------------------------------------------------------------------------------


def rebuild_producers(log: PartitionLog, end: int, now_ms: int) -> None:
    """Producer state as of an offset: the newest good snapshot and what came after it."""
    offset = _load_snapshot(log, end, now_ms)
    _replay(log, offset, end, now_ms)


def _has_good_snapshot(log: PartitionLog, offset: int) -> bool:
    """Whether the device has a snapshot of exactly this offset."""
    if offset not in log.snapshot_offsets:
        return False
    path = log.snapshot_path(offset)
    ensure_on_device(log.disk, path)
    try:
        producer_snapshot.decode(log.disk.read_file(path))
    except ValueError:
        return False
    return True


def _load_snapshot(log: PartitionLog, offset_max: int, now_ms: int) -> int:
    """Loads the newest good snapshot; returns its offset, or the log's start if there is none."""
    for offset in reversed([o for o in log.snapshot_offsets if o <= offset_max]):
        try:
            entries = producer_snapshot.decode(log.disk.read_file(log.snapshot_path(offset)))
        except ValueError:
            log.disk.unlink_if_exists(log.snapshot_path(offset))
            log.snapshot_offsets.remove(offset)
            continue
        log.producers.load(entries, now_ms)
        return offset
    log.producers.load([], now_ms)
    return log.segments.base_offsets[0]


def _replay(log: PartitionLog, start: int, end: int, now_ms: int) -> None:
    """Applies the batches in [start, end) to the producers; indexes are not touched."""
    if start >= end:
        return
    for segment in log.segments.items[log.segments.floor_index(start) :]:
        if segment.base_offset >= end:
            return
        found = segment.find(start) if segment.size_bytes else None
        if found is None:
            continue
        for position, header in iter_headers(log.disk, segment.file(), found[0], segment.size_bytes):
            if header.base_offset >= end:
                return
            if header.producer_id >= 0:
                _replay_batch(log, segment, position, header, now_ms)


def _replay_batch(log: PartitionLog, segment: Segment, position: int, header: BatchHeader, now_ms: int) -> None:
    producers = log.producers
    if not header.is_control:
        producers.apply_data_batch(header, header.base_offset, header.last_offset, header.max_timestamp, now_ms)
        return
    marker = decode_marker(read_batch(segment, position, header))
    if marker is None:
        return
    txn = producers.apply_marker(
        header.producer_id,
        header.producer_epoch,
        marker.coordinator_epoch,
        aborted=marker.type == ControlType.ABORT,
        offset=header.base_offset,
        timestamp=header.max_timestamp,
        now_ms=now_ms,
    )
    if txn is not None:
        producers.complete(txn)


def _remove_snapshots(log: PartitionLog, keep_up_to: int) -> None:
    """Snapshots of records that are gone; they would lie about those that come in their place."""
    for offset in [o for o in log.snapshot_offsets if o > keep_up_to]:
        log.disk.unlink_if_exists(log.snapshot_path(offset))
        log.snapshot_offsets.remove(offset)
        log.dirty_directories.add(log.directory)


# -- both ----------------------------------------------------------------------------------------------------


def _settle(log: PartitionLog, recovered: bool, now_ms: int) -> None:
    """Brings everything into agreement with where the log starts and ends."""
    if log.end_offset < log.log_start_offset:
        _start_over(log, now_ms)
    elif not recovered:
        rebuild_producers(log, log.end_offset, now_ms)
    log.log_start_offset = max(log.log_start_offset, log.segments.base_offsets[0])
    log.epochs.truncate_from_end(log.end_offset)
    log.epochs.truncate_from_start(log.log_start_offset)
    _remove_snapshots(log, keep_up_to=log.end_offset)
    stray_snapshots.remove(log)
    log.recovery_point = log.end_offset
    log.high_watermark = log.log_start_offset
    if recovered:
        # What was found in the page cache only may be acknowledged and read from now on.
        if log.epochs.dirty:
            log.write_epochs(durably=True)
        log.flush()
        # See `page_cache`: the next record may share a block with zeros that the device shows without having them.
        log.disk.drop_cache(log.active.file(), log.active.size_bytes)


def _start_over(log: PartitionLog, now_ms: int) -> None:
    """Records up to the log start were deleted and the rest was never synced: nothing is left."""
    for segment in reversed(log.segments.replace(0, len(log.segments.items), [])):
        if segment in log.dirty_segments:
            log.dirty_segments.remove(segment)
        segment.unlink()
    _remove_snapshots(log, keep_up_to=-1)
    log.epochs.clear()
    log.producers.load([], now_ms)
    log.disk.fsync_dir(log.directory)
    add_first_segment(log, log.log_start_offset, now_ms)
    log.end_offset = log.log_start_offset


def _rebuild_epochs(log: PartitionLog) -> None:
    epochs = LeaderEpochs()
    for segment in log.segments.items:
        for _, header in iter_headers(log.disk, segment.file(), 0, segment.size_bytes):
            if header.leader_epoch > epochs.latest:
                epochs.assign(header.leader_epoch, header.base_offset)
    epochs.dirty = True
    log.epochs = epochs
