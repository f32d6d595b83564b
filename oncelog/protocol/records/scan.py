"""Walks the plain records of a batch and says whether a broker may store them: the twin of `_native.c`.

Both take the same arguments, accept the same batches and give the same verdict on the others; the tests run
over both. This one is used where the extension could not be built. It makes no object per record, and spells
out the reading of one- and two-byte varints, since a call for each would treble its time.
"""

from __future__ import annotations

from typing import Final

from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.records.varint import read_raw

OK: Final = 0
TRUNCATED: Final = 1
BAD_VARINT: Final = 2
BAD_RECORD_LENGTH: Final = 3
BAD_FIELD_LENGTH: Final = 4
BAD_HEADER_COUNT: Final = 5
NULL_HEADER_KEY: Final = 6
NULL_KEY: Final = 7
BAD_OFFSET_DELTA: Final = 8
LENGTH_MISMATCH: Final = 9
BYTES_LEFT_OVER: Final = 10
TIMESTAMP_OVERFLOW: Final = 11
TIMESTAMP_OUT_OF_RANGE: Final = 12

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1


def scan_records(
    body: bytes | bytearray | memoryview,
    record_count: int,
    base_timestamp: int,
    compacted: bool,
    timestamp_min: int,
    timestamp_max: int,
) -> tuple[int, int, int]:
    """Return (verdict, index of the record it is about, newest timestamp up to there, at least -1).

    A timestamp of -1 means that the record has none, and is not held against the two bounds.
    """
    data = bytes(body)
    size = len(data)
    position = 0
    index = 0
    newest = -1
    try:
        for index in range(record_count):
            raw = data[position]
            position += 1
            if raw > 0x7F:
                byte = data[position]
                if byte < 0x80:
                    raw += (byte << 7) - 0x80
                    position += 1
                else:
                    raw, position = read_raw(data, position - 1, 32)
            if raw & 1 or raw >> 1 > size - position:
                return BAD_RECORD_LENGTH, index, newest
            end = position + (raw >> 1)

            raw = data[position + 1]
            position += 2
            if raw > 0x7F:
                byte = data[position]
                if byte < 0x80:
                    raw += (byte << 7) - 0x80
                    position += 1
                else:
                    raw, position = read_raw(data, position - 1, 64)
            timestamp = base_timestamp + ((raw >> 1) ^ -(raw & 1))
            if not timestamp_min <= timestamp <= timestamp_max:
                if not INT64_MIN <= timestamp <= INT64_MAX:
                    return TIMESTAMP_OVERFLOW, index, newest
                if timestamp != -1:
                    return TIMESTAMP_OUT_OF_RANGE, index, newest
            if timestamp > newest:
                newest = timestamp

            raw = data[position]
            position += 1
            if raw > 0x7F:
                byte = data[position]
                if byte < 0x80:
                    raw += (byte << 7) - 0x80
                    position += 1
                else:
                    raw, position = read_raw(data, position - 1, 32)
            if raw != index << 1:
                return BAD_OFFSET_DELTA, index, newest

            raw = data[position]
            position += 1
            if raw > 0x7F:
                raw, position = read_raw(data, position - 1, 32)
            if raw & 1:
                if raw != 1:
                    return BAD_FIELD_LENGTH, index, newest
                if compacted:
                    return NULL_KEY, index, newest
            else:
                position += raw >> 1

            raw = data[position]
            position += 1
            if raw > 0x7F:
                byte = data[position]
                if byte < 0x80:
                    raw += (byte << 7) - 0x80
                    position += 1
                else:
                    raw, position = read_raw(data, position - 1, 32)
            if not raw & 1:
                position += raw >> 1
            elif raw != 1:
                return BAD_FIELD_LENGTH, index, newest

            if data[position]:
                verdict, position = _scan_headers(data, position)
                if verdict:
                    return verdict, index, newest
            else:
                position += 1
            if position != end:
                return LENGTH_MISMATCH, index, newest
    except IndexError:
        return TRUNCATED, index, newest
    except ProtocolError:
        return BAD_VARINT, index, newest
    return (OK if position == size else BYTES_LEFT_OVER), index, newest


def _scan_headers(data: bytes, position: int) -> tuple[int, int]:
    """Return the verdict on one record's headers, and the position behind them."""
    raw, position = read_raw(data, position, 32)
    if raw & 1 or raw >> 1 > len(data) - position:
        return BAD_HEADER_COUNT, position
    for _ in range(raw >> 1):
        raw, position = read_raw(data, position, 32)
        if raw & 1:
            return (NULL_HEADER_KEY if raw == 1 else BAD_FIELD_LENGTH), position
        raw, position = read_raw(data, position + (raw >> 1), 32)
        if not raw & 1:
            position += raw >> 1
        elif raw != 1:
            return BAD_FIELD_LENGTH, position
    return OK, position
