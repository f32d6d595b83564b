"""Encodes rows of Arrow columns as records: the Python version of `columns.h`.

A `Column` is an Arrow array as its buffers: int32 offsets in the machine's byte order, the bytes that they point
into, a bitmap with a 1 for each row that is not null (None: no row is), and the index of the first row. A column of
lists has no bytes of its own; its offsets point into the columns of its children. None instead of a column is null
in every row.
"""

from __future__ import annotations

from typing import Final

from oncelog.named_tuple import NamedTuple
from oncelog.protocol.primitives import Buffer
from oncelog.protocol.records.varint import encode_varint

_INT32_MAX: Final = 2**31 - 1


class Column(NamedTuple):
    offsets: Buffer
    data: Buffer | None
    validity: Buffer | None
    start: int


def encode_records(
    rows: Buffer,
    first: int,
    first_delta: int,
    base_timestamp: int,
    size_bytes_max: int,
    timestamps: Buffer,
    keys: Column | None,
    values: Column | None,
    header_lists: Column | None,
    header_keys: Column | None,
    header_values: Column | None,
) -> tuple[bytes, int, int]:
    """Encode the rows named in `rows` (int32) from place `first` on, until `size_bytes_max` is reached.

    Offset deltas count from `first_delta`; the record with delta 0 is written however large it is. Returns the
    bytes, the place of the first row that is not in them, and the newest timestamp in them, or -1.
    """
    if first < 0 or not 0 <= first_delta <= _INT32_MAX:
        raise IndexError("the first row or its offset delta is out of range")
    places = memoryview(rows).cast("B").cast("i")
    times = memoryview(timestamps).cast("B").cast("q")
    out = bytearray()
    newest = -1
    place = first
    for place in range(first, len(places)):
        row = places[place]
        if not 0 <= row < len(times):
            raise _outside()
        offset_delta = first_delta + place - first
        timestamp_delta = times[row] - base_timestamp
        if not -(2**63) <= timestamp_delta < 2**63:
            raise OverflowError("a timestamp is too far from that of its batch")
        body = bytearray(1)
        body += encode_varint(timestamp_delta)
        body += encode_varint(offset_delta)
        _append_field(body, keys, row)
        _append_field(body, values, row)
        found = None if header_lists is None else row_range(header_lists, row)
        start, end = found or (0, 0)
        body += encode_varint(end - start)
        for index in range(start, end):
            if header_keys is None or row_range(header_keys, index) is None:
                raise _outside()
            _append_field(body, header_keys, index)
            _append_field(body, header_values, index)
        record = bytearray()
        record += encode_varint(len(body))
        record += body
        if offset_delta and len(out) + len(record) > size_bytes_max:
            return bytes(out), place, newest
        out += record
        newest = max(newest, times[row])
    return bytes(out), max(first, len(places)), newest


def row_range(column: Column, row: int) -> tuple[int, int] | None:
    """What the offsets of one row enclose, or None for null."""
    index = column.start + row
    offsets = memoryview(column.offsets).cast("B").cast("i")
    if row < 0 or index + 1 >= len(offsets):
        raise _outside()
    if column.validity is not None:
        validity = memoryview(column.validity).cast("B")
        if index // 8 >= len(validity):
            raise _outside()
        if not validity[index // 8] >> index % 8 & 1:
            return None
    start, end = offsets[index], offsets[index + 1]
    if not 0 <= start <= end:
        raise _outside()
    return start, end


def read_field(column: Column, row: int) -> bytes | None:
    found = row_range(column, row)
    if found is None:
        return None
    data = memoryview(column.data if column.data is not None else b"").cast("B")
    if found[1] > len(data):
        raise _outside()
    return bytes(data[found[0] : found[1]])


def _append_field(body: bytearray, column: Column | None, row: int) -> None:
    field = None if column is None else read_field(column, row)
    body += encode_varint(-1 if field is None else len(field))
    body += field or b""


def _outside() -> IndexError:
    return IndexError("a column leads outside its buffers, or a header has no key")
