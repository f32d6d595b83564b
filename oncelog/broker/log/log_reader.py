"""Finding and reading batches of a partition's log.

A read returns whole batches in one buffer with one `pread`. Where it begins and ends is found without
walking the batches in between: the beginning from the offset index, or at once if the reader goes on where
it stopped; the end from the index as well, with a short walk from the last indexed batch before the limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from oncelog.broker.log.batch_scan import CorruptBatch, iter_headers
from oncelog.broker.log.segment import Segment
from oncelog.broker.log.stored_batches import StoredBatches
from oncelog.broker.log.txn_index import AbortedTxn
from oncelog.named_tuple import NamedTuple
from oncelog.protocol.errors import ErrorCode, KafkaError, ProtocolError
from oncelog.protocol.records.batch import LOG_OVERHEAD, BatchHeader, compute_crc
from oncelog.protocol.records.record import Record, iter_records

if TYPE_CHECKING:
    from oncelog.broker.log.partition_log import PartitionLog

_POSITIONS_MAX = 64
ABORTED_MAX = 4096
"""A read of committed records ends after about so many abort markers, because the answer lists all of them."""


class Location(NamedTuple):
    """Where batches lie: `size_bytes` from `position` in a segment's file; 0 bytes if there are none."""

    segment: Segment
    position: int
    size_bytes: int
    next_offset: int
    """No batch of the range reaches this offset; the offset to read next, or where it would be."""

    def stored(self) -> StoredBatches:
        return StoredBatches(self.segment, self.position, self.size_bytes)


class ReadResult(NamedTuple):
    records: bytes
    next_offset: int
    position: int
    segment_base_offset: int


class TimestampOffset(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int


class PositionCache:
    """Positions of batch boundaries that will be asked for soon: ends of reads, of flushes, of the log."""

    __slots__ = ("_positions",)

    def __init__(self) -> None:
        self._positions: dict[int, tuple[Segment, int]] = {}

    def put(self, offset: int, segment: Segment, position: int) -> None:
        positions = self._positions
        if len(positions) >= _POSITIONS_MAX and offset not in positions:
            del positions[next(iter(positions))]
        positions[offset] = (segment, position)

    def get(self, offset: int) -> tuple[Segment, int] | None:
        return self._positions.get(offset)

    def clear(self) -> None:
        self._positions.clear()


def locate(log: PartitionLog, offset: int, size_bytes_max: int, end_offset: int, min_one: bool) -> Location:
    """The batches from the one that holds `offset` up to the limits."""
    if offset < log.log_start_offset or offset > log.end_offset:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {offset} is outside [{log.log_start_offset}, {log.end_offset}]",
        )
    end_offset = min(end_offset, log.end_offset)
    if offset >= end_offset:
        return Location(log.active, log.active.size_bytes, 0, offset)
    found = _find_start(log, offset)
    if found is None:
        return Location(log.active, log.active.size_bytes, 0, offset)
    segment, position = found
    limit, limit_offset = _limit_of_segment(log, segment, end_offset)
    if limit - position > size_bytes_max:
        limit, limit_offset = _cut(segment, position, limit, size_bytes_max, min_one)
    if limit <= position:
        return Location(segment, position, 0, offset)
    log.positions.put(limit_offset, segment, limit)
    return Location(segment, position, limit - position, limit_offset)


def locate_committed(
    log: PartitionLog, offset: int, size_bytes_max: int, end_offset: int, min_one: bool
) -> tuple[Location, list[AbortedTxn]]:
    """As `locate`, with the aborted transactions among the batches. It ends earlier if these are very many."""
    found = locate(log, offset, size_bytes_max, end_offset, min_one)
    if not found.size_bytes:
        return found, []
    limit = found.segment.end_of_aborts(offset, ABORTED_MAX)
    if limit < found.next_offset:
        shorter = locate(log, offset, size_bytes_max, limit, min_one)
        # Empty if the marker is gone: Kafka's cleaner may have removed it.
        found = shorter if shorter.size_bytes else found
    return found, aborted_transactions(log, offset, found.next_offset)


def _find_start(log: PartitionLog, offset: int) -> tuple[Segment, int] | None:
    """The first batch that ends at or after `offset`, in whichever segment it is."""
    cached = log.positions.get(offset)
    if cached is not None and cached[1] < cached[0].size_bytes:
        return cached
    segments = log.segments
    i = segments.floor_index(offset)
    while i < len(segments.items):
        segment = segments.items[i]
        if segment.size_bytes:
            found = segment.find(offset)
            if found is not None:
                return segment, found[0]
        i += 1
    return None


def _limit_of_segment(log: PartitionLog, segment: Segment, end_offset: int) -> tuple[int, int]:
    """(position, offset) at which the readable part of the segment ends."""
    segment_end = log.end_offset if segment is log.active else log.segments.next_base_offset(segment)
    if end_offset >= segment_end:
        return segment.size_bytes, segment_end
    cached = log.positions.get(end_offset)
    if cached is not None and cached[0] is segment:
        return cached[1], end_offset
    found = segment.find(end_offset)
    if found is None:
        return segment.size_bytes, end_offset
    position, header = found
    limit_offset = min(end_offset, header.base_offset)
    log.positions.put(limit_offset, segment, position)
    return position, limit_offset


def _cut(segment: Segment, start: int, limit: int, size_bytes_max: int, min_one: bool) -> tuple[int, int]:
    """The last batch boundary that keeps the range within its size, but behind one batch if `min_one`."""
    indexed = segment.offset_index.floor_position(start + size_bytes_max)
    try:
        return _walk_to_cut(segment, start, max(start, indexed), limit, size_bytes_max, min_one)
    except CorruptBatch:
        if indexed <= start:
            raise segment.damaged() from None
    segment.rebuild_indexes()
    try:
        return _walk_to_cut(segment, start, start, limit, size_bytes_max, min_one)
    except CorruptBatch as error:
        raise segment.damaged() from error


def _walk_to_cut(
    segment: Segment, start: int, indexed: int, limit: int, size_bytes_max: int, min_one: bool
) -> tuple[int, int]:
    cut, cut_offset = start, -1
    wanted = start + size_bytes_max
    for position, header in iter_headers(segment.disk, segment.file(), indexed, limit):
        end = position + LOG_OVERHEAD + header.batch_length
        if end > wanted and not (min_one and position == start):
            # `position` is a boundary: the batches before it fit.
            return position, header.base_offset
        cut, cut_offset = end, header.base_offset + header.last_offset_delta + 1
        if end >= wanted:
            break
    return cut, cut_offset


def read(log: PartitionLog, offset: int, size_bytes_max: int, end_offset: int, min_one: bool) -> ReadResult:
    segment, position, size_bytes, next_offset = locate(log, offset, size_bytes_max, end_offset, min_one)
    records = segment.disk.pread_exactly(segment.file(), size_bytes, position) if size_bytes else b""
    return ReadResult(records, next_offset, position, segment.base_offset)


def read_batch(segment: Segment, position: int, header: BatchHeader) -> bytes:
    return segment.disk.pread_exactly(segment.file(), header.size_bytes, position)


def aborted_transactions(log: PartitionLog, start_offset: int, end_offset: int) -> list[AbortedTxn]:
    """All transactions that were aborted and have records in [start, end), by their first offset.

    An abort is noted in the segment of its marker, which may be long after the records.
    """
    aborted: list[AbortedTxn] = []
    if end_offset > start_offset:
        for segment in log.segments.with_aborted(start_offset):
            if segment.collect_aborted(start_offset, end_offset, aborted):
                break
    return sorted(aborted, key=lambda txn: txn.first_offset)


def offset_for_timestamp(log: PartitionLog, timestamp: int) -> TimestampOffset | None:
    """The first record whose timestamp is at least `timestamp`."""
    for segment in log.segments.items:
        if segment.size_bytes and segment.largest_timestamp >= timestamp:
            found = _find_timestamp(segment, timestamp, log.log_start_offset)
            if found is not None:
                return found
    return None


def _find_timestamp(segment: Segment, timestamp: int, log_start_offset: int) -> TimestampOffset | None:
    offset = max(segment.time_index.floor(timestamp), log_start_offset)
    start = segment.find(offset)
    if start is None:
        return None
    for position, header in _headers_from(segment, start[0]):
        if header.max_timestamp < timestamp or header.last_offset < log_start_offset:
            continue
        for record in _records(segment, position, header):
            if record.timestamp >= timestamp and record.offset >= log_start_offset:
                return TimestampOffset(record.timestamp, record.offset, header.leader_epoch)
    return None


def max_timestamp(log: PartitionLog) -> TimestampOffset | None:
    """The first record that has the largest timestamp of the log."""
    candidates = [segment for segment in log.segments.items if segment.size_bytes]
    if not candidates or log.log_start_offset == log.end_offset:
        return None
    segment = max(candidates, key=lambda candidate: candidate.largest_timestamp)
    largest = segment.largest_timestamp
    start = segment.find(segment.largest_timestamp_offset)
    if start is None or largest < 0:
        return None
    for position, header in _headers_from(segment, start[0]):
        if header.max_timestamp != largest:
            continue
        if header.log_append_time:
            return TimestampOffset(largest, header.last_offset, header.leader_epoch)
        for record in _records(segment, position, header):
            if record.timestamp == largest:
                return TimestampOffset(largest, record.offset, header.leader_epoch)
    return None


def _headers_from(segment: Segment, position: int) -> Iterator[tuple[int, BatchHeader]]:
    try:
        yield from iter_headers(segment.disk, segment.file(), position, segment.size_bytes)
    except CorruptBatch as error:
        raise segment.damaged() from error


def _records(segment: Segment, position: int, header: BatchHeader) -> Iterator[Record]:
    """The records of a batch, whose checksum is looked at first: a wrong offset is worse than none."""
    batch = read_batch(segment, position, header)
    if compute_crc(memoryview(batch)) != header.crc:
        raise segment.damaged()
    try:
        yield from iter_records(batch)
    except ProtocolError as error:
        raise segment.damaged() from error
