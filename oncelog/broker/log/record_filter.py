"""The two loops of compaction over the records of a batch: which keys it has, and which records stay.

They read the plain records (see `protocol.records.record` for the layout) without making an object for each:
a record that stays is a range of bytes, and neighbours that stay are one range. Varints of one or two bytes
are read in place, since most are and a call would cost more than the rest. The batches come from our own log
and their CRC was checked, so nothing here is validated again.
"""

from __future__ import annotations

from oncelog.broker.log.offset_map import KEY_BYTES_MAX, digest
from oncelog.named_tuple import NamedTuple
from oncelog.protocol.records.varint import read_raw


def index_records(data: bytes, count: int, base_offset: int, start_offset: int, offsets: dict[bytes, int]) -> None:
    """Notes the offset of every key from `start_offset` on; a later record of a key replaces an earlier one."""
    position = 0
    for _ in range(count):
        raw = data[position]
        position += 1
        if raw > 0x7F:
            byte = data[position]
            if byte < 0x80:
                raw += (byte << 7) - 0x80
                position += 1
            else:
                raw, position = read_raw(data, position - 1, 32)
        end = position + (raw >> 1)
        # The attributes are one byte; of the timestamp only the length matters here.
        position += 1
        while data[position] > 0x7F:
            position += 1
        raw = data[position + 1]
        position += 2
        if raw > 0x7F:
            byte = data[position]
            if byte < 0x80:
                raw += (byte << 7) - 0x80
                position += 1
            else:
                raw, position = read_raw(data, position - 1, 32)
        offset = base_offset + (raw >> 1)
        raw = data[position]
        position += 1
        if raw > 0x7F:
            raw, position = read_raw(data, position - 1, 32)
        if not raw & 1 and offset >= start_offset:
            key = data[position : position + (raw >> 1)]
            offsets[key if raw < 2 * KEY_BYTES_MAX else digest(key)] = offset
        position = end


class Kept(NamedTuple):
    """What stays of a batch: byte ranges of its plain records."""

    ranges: list[tuple[int, int]]
    record_count: int
    max_timestamp: int
    has_tombstone: bool


def filter_records(
    data: bytes,
    count: int,
    base_offset: int,
    base_timestamp: int,
    offsets: dict[bytes, int],
    latest_offset: int,
    drop_tombstones: bool,
) -> Kept:
    """A record stays if the map does not reach it, or if no later record has its key.

    A tombstone that is the last of its key goes when `drop_tombstones` says that its time is over; a record
    without a key, which an append to a compacted topic refuses, goes too.
    """
    ranges: list[tuple[int, int]] = []
    kept = 0
    max_timestamp = -1
    has_tombstone = False
    newest_of = offsets.get
    position = 0
    run_start = -1
    for _ in range(count):
        start = position
        raw = data[position]
        position += 1
        if raw > 0x7F:
            byte = data[position]
            if byte < 0x80:
                raw += (byte << 7) - 0x80
                position += 1
            else:
                raw, position = read_raw(data, position - 1, 32)
        end = position + (raw >> 1)
        raw = data[position + 1]
        position += 2
        if raw > 0x7F:
            raw, position = read_raw(data, position - 1, 64)
        timestamp = base_timestamp + ((raw >> 1) ^ -(raw & 1))
        raw = data[position]
        position += 1
        if raw > 0x7F:
            byte = data[position]
            if byte < 0x80:
                raw += (byte << 7) - 0x80
                position += 1
            else:
                raw, position = read_raw(data, position - 1, 32)
        offset = base_offset + (raw >> 1)
        raw = data[position]
        position += 1
        if raw > 0x7F:
            raw, position = read_raw(data, position - 1, 32)
        if raw & 1:
            stays = False
        else:
            key_end = position + (raw >> 1)
            key = data[position:key_end]
            stays = newest_of(key if raw < 2 * KEY_BYTES_MAX else digest(key), -1) <= offset
            position = key_end
        # A null is the length -1, which is the one byte 1.
        is_tombstone = data[position] == 1
        if offset > latest_offset or (stays and not (is_tombstone and drop_tombstones)):
            kept += 1
            if is_tombstone:
                has_tombstone = True
            if timestamp > max_timestamp:
                max_timestamp = timestamp
            if run_start < 0:
                run_start = start
        elif run_start >= 0:
            ranges.append((run_start, start))
            run_start = -1
        position = end
    if run_start >= 0:
        ranges.append((run_start, position))
    return Kept(ranges, kept, max_timestamp, has_tombstone)
