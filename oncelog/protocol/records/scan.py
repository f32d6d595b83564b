"""Walks the plain records of a batch and says whether a broker may store them: the twin of a part of `_native.c`.

The records come in windows that may cut them anywhere, as a decompressor gives them. Nothing of a window is kept, so
a record may be larger than the memory that there is. The verdict is that on all records at once.

Both twins take the same arguments, accept the same batches and give the same verdict on the others; the tests run
over both. This one is used where the extension could not be built. Records that a window holds as a whole are read
without an object per record, and with one- and two-byte varints spelt out, since a call for each would treble the
time. The few others are read by a generator that pauses wherever a window ends.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.primitives import Buffer
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

VIOLATIONS_MAX: Final = 1000

_CUT_BY_WINDOW: Final = (TRUNCATED, BAD_RECORD_LENGTH, BAD_HEADER_COUNT)
"""Verdicts on a record in a window that the next window may change."""

_Scan = Generator[None, None, int]


class _Malformed(Exception):
    def __init__(self, verdict: int) -> None:
        self.verdict = verdict


class RecordScanner:
    """Feed it the records of one batch, then ask for the verdict."""

    def __init__(
        self, record_count: int, base_timestamp: int, compacted: bool, timestamp_min: int, timestamp_max: int, /
    ) -> None:
        self._record_count = record_count
        self._base_timestamp = base_timestamp
        self._compacted = compacted
        self._timestamp_min = timestamp_min
        self._timestamp_max = timestamp_max
        self._index = 0
        self._newest = -1
        self._verdict = OK
        self._violations: list[tuple[int, int]] = []
        self._window = b""
        self._fed = 0
        self._position = 0
        """Of the next field in the records. May be beyond what was fed after a length was skipped."""
        # The rest is about a record that a window has cut.
        self._cut: _Scan | None = None
        self._end = 0
        self._headers_end = 0
        """The least position at which its headers can end."""

    def feed(self, window: Buffer, /) -> None:
        self._window = bytes(window)
        self._fed += len(window)
        while not self._verdict and self._index < self._record_count and self._position <= self._fed:
            if self._cut is None:
                self._verdict = self._scan_whole_records()
                if self._verdict not in _CUT_BY_WINDOW:
                    return
                self._cut = self._scan_cut_record()
            try:
                self._verdict = OK
                next(self._cut)
            except StopIteration as end:
                self._verdict = end.value
                self._cut = None
            else:
                return

    def finish(self) -> tuple[int, int, int, list[tuple[int, int]]]:
        """Return (verdict, index of the record that it is about, newest timestamp, violations).

        The verdict is on the first record that is malformed. Violations are well-formed records that their topic does
        not take, the first thousand, each as (index, verdict). The newest timestamp is at least -1. A timestamp of -1
        means that the record has none, and is not held against the two bounds.
        """
        index = self._index
        if index >= self._record_count:
            verdict = OK if self._position == self._fed else BYTES_LEFT_OVER
            index = max(self._record_count - 1, 0)
        elif self._end > self._fed:
            verdict = BAD_RECORD_LENGTH
        elif self._headers_end > self._fed:
            verdict = BAD_HEADER_COUNT
        else:
            verdict = self._verdict or TRUNCATED
        return verdict, index, self._newest, self._violations

    def _scan_whole_records(self) -> int:
        """Stop at the first record that is malformed or cut; return the verdict on it."""
        data = self._window
        size = len(data)
        window_start = self._fed - size
        position = self._position - window_start
        base_timestamp = self._base_timestamp
        newest = self._newest
        verdict = OK
        try:
            for index in range(self._index, self._record_count):
                self._index = index
                self._position = window_start + position
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
                    verdict = BAD_RECORD_LENGTH
                    break
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
                if not INT64_MIN <= timestamp <= INT64_MAX:
                    verdict = TIMESTAMP_OVERFLOW
                    break

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
                    verdict = BAD_OFFSET_DELTA
                    break

                key = data[position]
                position += 1
                if key > 0x7F:
                    key, position = read_raw(data, position - 1, 32)
                if not key & 1:
                    position += key >> 1
                elif key != 1:
                    verdict = BAD_FIELD_LENGTH
                    break

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
                    verdict = BAD_FIELD_LENGTH
                    break

                if data[position]:
                    verdict, position = _scan_headers(data, position)
                    if verdict:
                        break
                else:
                    position += 1
                if position != end:
                    verdict = LENGTH_MISMATCH
                    break
                if timestamp > newest:
                    newest = timestamp
                if key == 1 or not self._timestamp_min <= timestamp <= self._timestamp_max:
                    self._note_violation(timestamp, key == 1)
            else:
                self._index = self._record_count
                self._position = window_start + position
        except IndexError:
            verdict = TRUNCATED
        except ProtocolError:
            verdict = BAD_VARINT
        self._newest = newest
        return verdict

    def _scan_cut_record(self) -> _Scan:
        """Scan one record that windows may cut anywhere; return the verdict on it."""
        try:
            raw = yield from self._read_raw(32)
            if raw & 1:
                return BAD_RECORD_LENGTH
            self._end = self._position + (raw >> 1)
            self._position += 1
            raw = yield from self._read_raw(64)
            timestamp = self._base_timestamp + ((raw >> 1) ^ -(raw & 1))
            if not INT64_MIN <= timestamp <= INT64_MAX:
                return TIMESTAMP_OVERFLOW
            if (yield from self._read_raw(32)) != self._index << 1:
                return BAD_OFFSET_DELTA
            is_key_null = yield from self._skip_nullable()
            yield from self._skip_nullable()
            yield from self._skip_headers()
        except _Malformed as malformed:
            return malformed.verdict
        if self._position != self._end:
            return LENGTH_MISMATCH
        while self._position > self._fed:
            yield
        self._note_violation(timestamp, is_key_null)
        self._newest = max(self._newest, timestamp)
        self._index += 1
        self._end = self._headers_end = 0
        return OK

    def _skip_headers(self) -> Generator[None, None, None]:
        raw = yield from self._read_raw(32)
        if raw & 1:
            raise _Malformed(BAD_HEADER_COUNT)
        self._headers_end = self._position + (raw >> 1)
        for _ in range(raw >> 1):
            if (yield from self._skip_nullable()):
                raise _Malformed(NULL_HEADER_KEY)
            yield from self._skip_nullable()

    def _skip_nullable(self) -> Generator[None, None, bool]:
        """Skip bytes with their length before them; return whether they are null."""
        raw = yield from self._read_raw(32)
        if raw & 1:
            if raw != 1:
                raise _Malformed(BAD_FIELD_LENGTH)
            return True
        self._position += raw >> 1
        return False

    def _read_raw(self, bits: int) -> _Scan:
        raw = shift = 0
        while True:
            while self._position >= self._fed:
                yield
            byte = self._window[self._position - self._fed]
            self._position += 1
            raw |= (byte & 0x7F) << shift
            shift += 7
            if raw >> bits or (byte > 0x7F and shift > bits):
                raise _Malformed(BAD_VARINT)
            if byte < 0x80:
                return raw

    def _note_violation(self, timestamp: int, is_key_null: bool) -> None:
        if len(self._violations) < VIOLATIONS_MAX:
            if is_key_null and self._compacted:
                self._violations.append((self._index, NULL_KEY))
            elif not self._timestamp_min <= timestamp <= self._timestamp_max and timestamp != -1:
                self._violations.append((self._index, TIMESTAMP_OUT_OF_RANGE))


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
