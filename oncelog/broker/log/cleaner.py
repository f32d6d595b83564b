"""Compaction of one log: a pass over its dirty part for the newest offset of each key, then one over all of
its cleanable segments that leaves out what is obsolete.

What stays (KIP-58, KIP-98, KIP-534):

- the last record of each key, and everything behind the part whose keys are known
- a tombstone until `delete.retention.ms` after it was first cleaned; that time, the delete horizon, is then
  written in the header of its batch
- nothing of an aborted transaction; a marker until all batches of its transaction are gone and then, as a
  tombstone, until its horizon
- the last batch of every active producer, without records if they are obsolete: it has the sequence with which
  the producer's state can be rebuilt; a marker in its place if only that knows the producer's epoch
- the last batch of the round, without records if they are obsolete, so that the offsets up to there stay
  accounted for

Batches keep their base offset, last offset, sequence and compression. A batch of which everything stays is
copied as it is. Cleaned segments are written beside the log, several old ones into one as long as they fit.

Nothing here touches the log itself, so `clean` may run in another thread than the log. It only reads closed
segments, by descriptors of its own, and finds out that one was deleted by its absence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from oncelog.broker.log.batch_scan import CorruptBatch, iter_checked
from oncelog.broker.log.compaction import CleaningPlan
from oncelog.broker.log.disk import StorageError
from oncelog.broker.log.file_names import LOG
from oncelog.broker.log.offset_index import ENTRY_SIZE as OFFSET_ENTRY_SIZE
from oncelog.broker.log.offset_index import RELATIVE_OFFSET_MAX
from oncelog.broker.log.offset_map import KEY_BYTES_MAX, OffsetMap, digest
from oncelog.broker.log.record_filter import Kept, filter_records, index_records
from oncelog.broker.log.segment import Segment
from oncelog.broker.log.segment_swap import CleanedSegment
from oncelog.broker.log.time_index import ENTRY_SIZE as TIME_ENTRY_SIZE
from oncelog.broker.log.txn_cleaning import CleanedTransactions
from oncelog.broker.log.txn_index import AbortedTxn
from oncelog.named_tuple import NamedTuple
from oncelog.protocol.records.batch import HEADER_SIZE, BatchHeader, assemble_batch, rebuild_batch
from oncelog.protocol.records.compression import DECOMPRESSED_SIZE_BYTES_MAX, decompress
from oncelog.protocol.records.control import decode_control_key
from oncelog.protocol.records.record import Record, iter_records

SEGMENTS_AT_ONCE = 32
"""How many segments are merged into one at once, which takes renaming all of their files."""

Progress = Callable[[int], None]
"""Called with the number of bytes read since the last call; it may slow the cleaning down, or end it."""


class CleanedGroup(NamedTuple):
    """Consecutive segments and what replaces them; `cleaned` is None if nothing would change."""

    segments: list[Segment]
    cleaned: CleanedSegment | None


def clean(plan: CleaningPlan, offset_map: OffsetMap, progress: Progress) -> Iterator[CleanedGroup]:
    """Gives cleaned segments, one after the other, for `PartitionLog.replace_segments`.

    When it is exhausted, the log is clean up to `offset_map.latest_offset`. StorageError if a batch is damaged.
    """
    _fill_map(plan, offset_map, progress)
    # Also of the part behind the map: its last segment is copied whole, and with it its transaction index.
    transactions = CleanedTransactions(_aborted(plan, plan.segments[0].base_offset, plan.end_offset))
    batches = _BatchFilter(plan, offset_map, transactions)
    for group in group_segments(plan, offset_map.latest_offset + 1):
        yield _clean_group(plan, group, batches, progress)


def group_segments(plan: CleaningPlan, end_offset: int) -> list[list[Segment]]:
    """Neighbours that fit together into one segment with one index each."""
    config = plan.config
    segments = [segment for segment in plan.segments if segment.base_offset < end_offset]
    ends = [segment.base_offset for segment in segments[1:]] + [plan.end_offset]
    groups: list[list[Segment]] = []
    size_bytes = offset_entries = time_entries = 0
    for segment, segment_end in zip(segments, ends, strict=True):
        size_bytes += segment.size_bytes
        offset_entries += len(segment.offset_index)
        time_entries += len(segment.time_index)
        fits = (
            groups
            and len(groups[-1]) < SEGMENTS_AT_ONCE
            and size_bytes <= config.segment_bytes
            and offset_entries * OFFSET_ENTRY_SIZE <= config.segment_index_bytes
            and time_entries * TIME_ENTRY_SIZE <= config.segment_index_bytes
            and (not segment.size_bytes or segment_end - 1 - groups[-1][0].base_offset <= RELATIVE_OFFSET_MAX)
        )
        if fits:
            groups[-1].append(segment)
        else:
            groups.append([segment])
            size_bytes = segment.size_bytes
            offset_entries = len(segment.offset_index)
            time_entries = len(segment.time_index)
    return groups


def _aborted(plan: CleaningPlan, start: int, end: int) -> list[AbortedTxn]:
    aborted: list[AbortedTxn] = []
    for index in plan.txn_indexes:
        if index.collect(start, end, aborted):
            break
    return aborted


def _iter_batches(
    plan: CleaningPlan, segment: Segment, position: int, progress: Progress
) -> Iterator[tuple[BatchHeader, memoryview]]:
    disk = plan.log.disk
    size_bytes = plan.sizes_bytes[segment]
    fd = disk.open(segment.path(LOG))
    try:
        for _, header, batch in iter_checked(disk, fd, position, size_bytes, segment.base_offset):
            progress(len(batch))
            yield header, batch
    except CorruptBatch as error:
        raise StorageError(f"{segment.path(LOG)} is damaged {error}") from error
    finally:
        disk.close(fd)


def _plain_records(header: BatchHeader, batch: memoryview) -> bytes:
    return bytes(decompress(header.compression, batch[HEADER_SIZE:], DECOMPRESSED_SIZE_BYTES_MAX))


# -- the newest offset of each key ---------------------------------------------------------------------------


def _fill_map(plan: CleaningPlan, offset_map: OffsetMap, progress: Progress) -> None:
    """Reads the dirty part until its end or until the map is full."""
    start, end = plan.first_dirty_offset, plan.end_offset
    transactions = CleanedTransactions(_aborted(plan, start, end))
    ends = [segment.base_offset for segment in plan.segments[1:]] + [end]
    for segment, segment_end in zip(plan.segments, ends, strict=True):
        if segment_end <= start:
            continue
        _, position = segment.offset_index.floor_offset(start)
        for header, batch in _iter_batches(plan, segment, position, progress):
            if offset_map.is_full:
                return
            _index_batch(header, batch, start, offset_map, transactions)
            if header.last_offset >= start:
                offset_map.latest_offset = header.last_offset
        # Offsets may be missing at the end of a segment that was cleaned before.
        offset_map.latest_offset = segment_end - 1


def _index_batch(
    header: BatchHeader,
    batch: memoryview,
    start_offset: int,
    offset_map: OffsetMap,
    transactions: CleanedTransactions,
) -> None:
    if header.is_control:
        transactions.is_marker_obsolete(header, _control_type(batch))
    elif not transactions.is_aborted(header) and header.record_count:
        data = _plain_records(header, batch)
        index_records(data, header.record_count, header.base_offset, start_offset, offset_map.offsets)


def _control_type(batch: memoryview) -> int | None:
    """None if the marker's record was removed."""
    for record in iter_records(batch):
        return decode_control_key(record.key)
    return None


# -- what stays ----------------------------------------------------------------------------------------------


def _clean_group(plan: CleaningPlan, group: list[Segment], batches: _BatchFilter, progress: Progress) -> CleanedGroup:
    cleaned = plan.log.create_cleaned_segment(group[0].base_offset)
    changed = len(group) > 1
    try:
        batches.transactions.kept_aborts.clear()
        for segment in group:
            for header, batch in _iter_batches(plan, segment, 0, progress):
                kept = batches.filter(header, batch)
                if kept is None:
                    changed = True
                    continue
                changed |= kept.data is not batch
                cleaned.append(kept.data, header.last_offset, kept.max_timestamp)
        for txn in batches.transactions.kept_aborts:
            cleaned.add_aborted(txn)
        if changed:
            cleaned.finish()
    except BaseException:
        cleaned.discard()
        raise
    if not changed:
        cleaned.discard()
    return CleanedGroup(group, cleaned if changed else None)


class _KeptBatch(NamedTuple):
    data: memoryview | bytearray
    max_timestamp: int


class _BatchFilter:
    """Decides on one batch after the other, in the order of the log."""

    def __init__(self, plan: CleaningPlan, offset_map: OffsetMap, transactions: CleanedTransactions) -> None:
        self.transactions = transactions
        self._offsets = offset_map.offsets
        self._latest_offset = offset_map.latest_offset
        self._last_batches = plan.last_batches
        self._round_end = plan.end_offset
        self._now_ms = plan.now_ms
        self._new_horizon_ms = plan.now_ms + plan.config.delete_retention_ms

    def filter(self, header: BatchHeader, batch: memoryview) -> _KeptBatch | None:
        """What stays of the batch, which is `batch` itself if all does; None if nothing does."""
        if header.is_control:
            kept = self._filter_marker(header, batch)
        elif self.transactions.is_aborted(header):
            kept = None
        else:
            kept = self._filter_data(header, batch)
        if kept is None and (self._is_last_of_producer(header) or header.last_offset + 1 == self._round_end):
            data = batch if not header.record_count else rebuild_batch(header, [])
            return _KeptBatch(data, header.max_timestamp)
        return kept

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        last = self._last_batches.get(header.producer_id) if header.producer_id >= 0 else None
        if last is None:
            return False
        last_offset, epoch = last
        if last_offset >= 0:
            return header.last_offset == last_offset
        # The producer's epoch is known from a marker only, and is what fences older ones.
        return header.is_control and header.producer_epoch == epoch

    def _filter_marker(self, header: BatchHeader, batch: memoryview) -> _KeptBatch | None:
        if not self.transactions.is_marker_obsolete(header, _control_type(batch)):
            return _KeptBatch(batch, header.max_timestamp)
        if not header.record_count:
            return None
        horizon_ms = header.delete_horizon_ms
        if horizon_ms is None:
            return self._with_horizon(header, list(iter_records(batch)))
        # Kafka empties the last marker of a producer, and with its record loses the epoch that it stands for.
        is_needed = horizon_ms > self._now_ms or self._is_last_of_producer(header)
        return _KeptBatch(batch, header.max_timestamp) if is_needed else None

    def _filter_data(self, header: BatchHeader, batch: memoryview) -> _KeptBatch | None:
        if not header.record_count:
            return None
        if header.base_offset > self._latest_offset:
            return _KeptBatch(batch, header.max_timestamp)
        horizon_ms = header.delete_horizon_ms
        drop_tombstones = horizon_ms is not None and horizon_ms <= self._now_ms
        data = _plain_records(header, batch)
        kept = filter_records(
            data,
            header.record_count,
            header.base_offset,
            header.base_timestamp,
            self._offsets,
            self._latest_offset,
            drop_tombstones,
        )
        if not kept.record_count:
            return None
        if kept.has_tombstone and horizon_ms is None:
            return self._with_horizon(header, [r for r in iter_records(batch) if self._stays(r)])
        if kept.record_count == header.record_count:
            return _KeptBatch(batch, header.max_timestamp)
        return _take_ranges(header, data, kept)

    def _stays(self, record: Record) -> bool:
        """As `filter_records` decides, for a batch without a delete horizon."""
        if record.offset > self._latest_offset:
            return True
        key = record.key
        if key is None:
            return False
        newest = self._offsets.get(key if len(key) < KEY_BYTES_MAX else digest(key), -1)
        return newest <= record.offset

    def _with_horizon(self, header: BatchHeader, records: list[Record]) -> _KeptBatch:
        data = rebuild_batch(header, records, delete_horizon_ms=self._new_horizon_ms)
        return _KeptBatch(data, max(record.timestamp for record in records))


def _take_ranges(header: BatchHeader, data: bytes, kept: Kept) -> _KeptBatch:
    """Offsets and timestamps in records are relative to the header, where both stay: bytes can be copied."""
    max_timestamp = header.max_timestamp if header.log_append_time else kept.max_timestamp
    rest = header._replace(max_timestamp=max_timestamp, record_count=kept.record_count)
    return _KeptBatch(assemble_batch(rest, b"".join([data[start:end] for start, end in kept.ranges])), max_timestamp)
