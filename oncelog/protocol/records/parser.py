"""The only parser of records in Python, as `parse_record` in `parse.h` is the only one in C.

    length            varint    bytes that follow this field
    attributes        int8      unused
    timestamp_delta   varlong   to the batch's base_timestamp
    offset_delta      varint    to the batch's base_offset
    key, value        varint length, -1 for null, and the bytes
    header count      varint    then per header a key (UTF-8, never null) and a value, both like the above

Records come in windows that may cut them anywhere, as a decompressor yields them. A parser that does not keep keys and
values skips them, so a record may be larger than the available memory.
"""

from __future__ import annotations

from collections.abc import Generator

from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.primitives import Buffer
from oncelog.protocol.records.varint import read_raw
from oncelog.protocol.records.verdicts import (
    BAD_FIELD_LENGTH,
    BAD_HEADER_COUNT,
    BAD_OFFSET_DELTA,
    BAD_RECORD_LENGTH,
    BAD_VARINT,
    BYTES_LEFT_OVER,
    INT64_MAX,
    INT64_MIN,
    LENGTH_MISMATCH,
    NULL_HEADER_KEY,
    OK,
    TIMESTAMP_OVERFLOW,
    TRUNCATED,
)

Headers = list[tuple[str, bytes | None]]
ParsedRecord = tuple[int, int, int, bytes | None, bytes | None, Headers]
"""Attributes, timestamp, offset delta, key, value, headers."""
Parsing = Generator[ParsedRecord | None, Buffer | None, None]

_HEAD_SIZE_MAX = 26
"""The bytes from the length of a record to the length of its key, at most."""
_VARINT_SIZE_MAX = 5
_Place = tuple[bytes, int, int]
"""Some data, where it starts in the records, and a position in it."""


class _Malformed(Exception):
    def __init__(self, verdict: int) -> None:
        self.verdict = verdict


class RecordParser:
    """Parses the records of one batch.

    With `keep` it yields whole records, whatever their offset deltas and timestamps: compaction leaves gaps. Without,
    keys and values that are not null are empty bytes, headers are dropped, and records must be as producers send them:
    numbered from 0, with timestamps of 64 bits.
    """

    __slots__ = (
        "_end",
        "_headers_end",
        "_position",
        "_verdict",
        "base_timestamp",
        "ended",
        "fed",
        "index",
        "keep",
        "record_count",
    )

    def __init__(self, record_count: int, base_timestamp: int, *, keep: bool) -> None:
        self.record_count = record_count
        self.base_timestamp = base_timestamp
        self.keep = keep
        self.index = 0
        """Of the record that is parsed, or the record count after the last."""
        self.fed = 0
        """The size of all windows so far."""
        self.ended = False
        """No more windows come."""
        self._verdict = OK
        self._position = 0
        # The least positions at which the record and its headers can end.
        self._end = 0
        self._headers_end = 0

    def parse(self, data: bytes = b"") -> Parsing:
        """Yield each record, and None to be sent the next window. Stop at one that is malformed."""
        # Varints of one and two bytes are spelt out where they are common: a call for each would double the time.
        base_timestamp, keep = self.base_timestamp, self.keep
        start = position = 0
        size = len(data)
        try:
            for index in range(self.record_count):
                self.index = index
                if size - position < _HEAD_SIZE_MAX:
                    data, start, position = yield from self._fill(data, start, position, _HEAD_SIZE_MAX)
                    size = len(data)
                raw = data[position]
                position += 1
                if raw > 0x7F:
                    byte = data[position]
                    if byte < 0x80:
                        raw += (byte << 7) - 0x80
                        position += 1
                    else:
                        raw, position = read_raw(data, position - 1, 32)
                if raw & 1:
                    raise _Malformed(BAD_RECORD_LENGTH)
                self._end = end = start + position + (raw >> 1)

                attributes = data[position]
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
                if not keep and not INT64_MIN <= timestamp <= INT64_MAX:
                    raise _Malformed(TIMESTAMP_OVERFLOW)

                raw = data[position]
                position += 1
                if raw > 0x7F:
                    byte = data[position]
                    if byte < 0x80:
                        raw += (byte << 7) - 0x80
                        position += 1
                    else:
                        raw, position = read_raw(data, position - 1, 32)
                if not keep and raw != index << 1:
                    raise _Malformed(BAD_OFFSET_DELTA)
                offset_delta = (raw >> 1) ^ -(raw & 1)

                key = value = None
                raw = data[position]
                position += 1
                if raw > 0x7F:
                    raw, position = read_raw(data, position - 1, 32)
                if not raw & 1:
                    key = data[position : position + (raw >> 1)] if keep else b""
                    position += raw >> 1
                elif raw != 1:
                    raise _Malformed(BAD_FIELD_LENGTH)

                if size - position < _VARINT_SIZE_MAX:
                    data, start, position = yield from self._fill(data, start, position, _VARINT_SIZE_MAX)
                    size = len(data)
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
                    value = data[position : position + (raw >> 1)] if keep else b""
                    position += raw >> 1
                elif raw != 1:
                    raise _Malformed(BAD_FIELD_LENGTH)

                if size - position < _VARINT_SIZE_MAX:
                    data, start, position = yield from self._fill(data, start, position, _VARINT_SIZE_MAX)
                    size = len(data)
                headers: Headers = []
                if data[position]:
                    data, start, position = yield from self._parse_headers(data, start, position, headers)
                    size = len(data)
                else:
                    position += 1
                if start + position != end:
                    raise _Malformed(LENGTH_MISMATCH)
                if position > size:
                    data, start, position = yield from self._fill(data, start, position, 0)
                    size = len(data)
                    if position > size:
                        raise _Malformed(TRUNCATED)
                yield attributes, timestamp, offset_delta, key, value, headers
            self.index = max(self.record_count, 0)
            self._position = start + position
        except _Malformed as malformed:
            self._verdict = malformed.verdict
        except IndexError:
            self._verdict = TRUNCATED
        except ProtocolError:
            self._verdict = BAD_VARINT

    def verdict(self) -> int:
        """The verdict on the record at `index`, after the last window."""
        if self.index >= self.record_count:
            return OK if self._position == self.fed else BYTES_LEFT_OVER
        if self._end > self.fed:
            return BAD_RECORD_LENGTH
        if self._headers_end > self.fed:
            return BAD_HEADER_COUNT
        return self._verdict or TRUNCATED

    def _parse_headers(
        self, data: bytes, start: int, position: int, headers: Headers
    ) -> Generator[None, Buffer | None, _Place]:
        raw, position = read_raw(data, position, 32)
        if raw & 1:
            raise _Malformed(BAD_HEADER_COUNT)
        self._headers_end = start + position + (raw >> 1)
        for _ in range(raw >> 1):
            if len(data) - position < _VARINT_SIZE_MAX:
                data, start, position = yield from self._fill(data, start, position, _VARINT_SIZE_MAX)
            raw, position = read_raw(data, position, 32)
            if raw & 1:
                raise _Malformed(NULL_HEADER_KEY if raw == 1 else BAD_FIELD_LENGTH)
            key = data[position : position + (raw >> 1)] if self.keep else b""
            position += raw >> 1
            if len(data) - position < _VARINT_SIZE_MAX:
                data, start, position = yield from self._fill(data, start, position, _VARINT_SIZE_MAX)
            raw, position = read_raw(data, position, 32)
            if raw & 1 and raw != 1:
                raise _Malformed(BAD_FIELD_LENGTH)
            if self.keep:
                value = None if raw == 1 else data[position : position + (raw >> 1)]
                headers.append((key.decode("utf-8", "surrogateescape"), value))
            position += raw >> 1
        return data, start, position

    def _fill(self, data: bytes, start: int, position: int, needed: int) -> Generator[None, Buffer | None, _Place]:
        """Wait for windows until so many bytes are there behind `position`, or no more come."""
        while len(data) - position < needed and not self.ended:
            window = yield
            if window is None:
                break
            dropped = min(position, len(data))
            data = data[dropped:] + window
            start += dropped
            position -= dropped
        return data, start, position
