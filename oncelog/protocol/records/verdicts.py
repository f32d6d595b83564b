"""What can be wrong with a record. The numbers are those of `parse.h`."""

from __future__ import annotations

from typing import Final

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

REASONS: Final = {
    TRUNCATED: "the data ends inside it",
    BAD_VARINT: "it has a varint that is too long",
    BAD_RECORD_LENGTH: "its length is negative or reaches beyond the batch",
    BAD_FIELD_LENGTH: "it has a field with a length below -1",
    BAD_HEADER_COUNT: "its header count is negative or larger than the batch",
    NULL_HEADER_KEY: "it has a header with a null key",
    NULL_KEY: "Compacted topic cannot accept message without key",
    BAD_OFFSET_DELTA: "its offset delta is not its place in the batch",
    LENGTH_MISMATCH: "its length differs from its content",
    BYTES_LEFT_OVER: "it is the last by the record count, but bytes follow",
    TIMESTAMP_OVERFLOW: "its timestamp does not fit in 64 bits",
    TIMESTAMP_OUT_OF_RANGE: "its timestamp is outside the range that the topic allows",
}
