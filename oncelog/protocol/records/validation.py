"""What a broker demands of the records in a produce request before it appends them.

The checks are those of Apache Kafka 4.3 (its LogValidator and what runs before it), cheapest first, with
these differences, all on the strict side:

- offset deltas must be 0..n-1 in plain batches too, and lengths consistent in compressed ones too;
- lengths below -1, timestamps beyond 64 bits and bytes after the batch are refused, not reinterpreted;
- compressed records are one gzip member, or one frame of lz4 or zstd, with nothing behind it;
- a batch that cannot be decompressed is INVALID_RECORD: clients resend forever on CORRUPT_MESSAGE;
- a batch that claims log append time is refused always, where Kafka does so on some paths only.

Kafka does not believe the header's max_timestamp: it takes the newest of the records and corrects the header
with its CRC. So does `check_produce_records`, which therefore wants a writable view.
"""

from __future__ import annotations

import struct
from typing import Final

from oncelog.named_tuple import NamedTuple
from oncelog.protocol.errors import ErrorCode, KafkaError, ProtocolError
from oncelog.protocol.records.batch import (
    CODEC_MASK,
    CONTROL_BIT,
    HEADER,
    HEADER_SIZE,
    LENGTH_POSITION,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    TRANSACTIONAL_BIT,
    BatchHeader,
    compute_crc,
    patch_max_timestamp,
    read_header,
)
from oncelog.protocol.records.compression import Allow, Compression, check_size, decompressed
from oncelog.protocol.records.fast_path import read_plain_batch
from oncelog.protocol.records.verdicts import INT64_MAX, INT64_MIN, OK, REASONS, TIMESTAMP_OUT_OF_RANGE

try:
    from oncelog.protocol.records._native import RecordScanner
except ImportError:
    from oncelog.protocol.records.scan import RecordScanner

_INT32: Final = struct.Struct(">i")
_LENGTH_MIN: Final = 14
"""The overhead of a magic 0 message, the smallest thing that was ever valid here."""


class BadRecord(NamedTuple):
    position: int
    """In its batch, from 0."""
    reason: str


class BadRecordsError(KafkaError):
    """A well-formed batch has records that its topic does not accept; `bad` has the first thousand (KIP-467)."""

    def __init__(self, code: ErrorCode, bad: list[BadRecord]) -> None:
        if code == ErrorCode.INVALID_TIMESTAMP:
            what = f"invalid timestamp: record {bad[0].position} of the batch: {bad[0].reason}"
        else:
            shown = ", ".join(f"RecordError(batchIndex={each.position}, message='{each.reason}')" for each in bad[:3])
            what = f"{len(bad)} record errors in total, and only showing the first three errors at most: [{shown}]"
        super().__init__(code, f"One or more records have been rejected due to {what}")
        self.bad = bad


class NoBatchError(KafkaError):
    """The data is not one batch of the current format."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_RECORD, message)


class _Rules(NamedTuple):
    """What a topic demands of each record."""

    compacted: bool
    timestamp_min: int = INT64_MIN
    timestamp_max: int = INT64_MAX


def check_produce_records(
    records: bytes | bytearray | memoryview | None,
    *,
    compacted: bool,
    max_message_bytes: int,
    allow_zstd: bool,
    timestamp_ms_min: int = INT64_MIN,
    timestamp_ms_max: int = INT64_MAX,
    allow: Allow = check_size,
) -> BatchHeader:
    """Check one partition's records of a produce request: give the header of their one batch, or KafkaError.

    The returned header is what the buffer holds afterwards. The bounds on timestamps are for topics with
    create time, where each record is held against them. `allow` is asked while compressed records are decompressed.
    """
    if records is None:
        raise NoBatchError("there are no records")
    view = memoryview(records)
    # Twice as fast as max() and min().
    if timestamp_ms_min < INT64_MIN:
        timestamp_ms_min = INT64_MIN
    if timestamp_ms_max > INT64_MAX:
        timestamp_ms_max = INT64_MAX
    if len(view) <= max_message_bytes:
        fields = read_plain_batch(view, compacted, timestamp_ms_min, timestamp_ms_max)
        if fields is not None:
            header = tuple.__new__(BatchHeader, fields)
            if header.crc == compute_crc(view):
                return header
    # The batch is not plain, or has a fault, which is found below.
    _check_framing(view)
    header = BatchHeader._make(HEADER.unpack_from(view))
    _check_codec(header.attributes & CODEC_MASK, allow_zstd)
    if header.base_offset != 0:
        raise _invalid(f"the batch starts at offset {header.base_offset} instead of 0")
    if len(view) > max_message_bytes:
        message = f"the batch has {len(view)} bytes, {max_message_bytes} are allowed"
        raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, message)
    crc = compute_crc(view)
    if header.crc != crc:
        message = f"the batch has CRC {header.crc:#010x}, its bytes give {crc:#010x}"
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, message)
    _check_header(header)
    newest = _check_body(view, header, _Rules(compacted, timestamp_ms_min, timestamp_ms_max), allow)
    if newest != header.max_timestamp:
        return _correct_max_timestamp(view, header, newest)
    return header


def check_produce_batch(batch: bytes | bytearray | memoryview, *, compacted: bool) -> None:
    """Check the records of a batch whose header and CRC are known to be good; raise KafkaError."""
    view = memoryview(batch)
    try:
        header = read_header(view)
    except ProtocolError as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
    _check_codec(header.attributes & CODEC_MASK, allow_zstd=True)
    _check_body(view, header, _Rules(compacted), check_size)


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)


def _check_framing(view: memoryview) -> None:
    """Check that the view holds exactly one batch of the current magic."""
    size = len(view)
    if size < LOG_OVERHEAD:
        raise NoBatchError(f"the records have {size} bytes, which is no whole batch")
    (batch_length,) = _INT32.unpack_from(view, LENGTH_POSITION)
    if batch_length < _LENGTH_MIN:
        message = f"Record size {batch_length} is less than the minimum record overhead ({_LENGTH_MIN})"
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, message)
    if size <= MAGIC_POSITION:
        raise NoBatchError(f"the records have {size} bytes, which is no whole batch")
    magic = view[MAGIC_POSITION]
    if magic > MAGIC:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"Invalid magic found in record: {magic}")
    if batch_length > size - LOG_OVERHEAD:
        raise NoBatchError(f"the batch claims {LOG_OVERHEAD + batch_length} bytes, the records have {size}")
    if magic < MAGIC:
        raise NoBatchError(f"the batch has magic {magic}, but Produce from version 3 on takes {MAGIC} only")
    if batch_length < HEADER_SIZE - LOG_OVERHEAD:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the batch has length {batch_length}, too short")
    if batch_length < size - LOG_OVERHEAD:
        raise NoBatchError(f"{size - LOG_OVERHEAD - batch_length} bytes follow the first batch; only one is allowed")


def _check_codec(codec_id: int, allow_zstd: bool) -> None:
    if codec_id > Compression.ZSTD:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"compression {codec_id} is not known")
    if codec_id == Compression.ZSTD and not allow_zstd:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7 (KIP-110)")


def _check_header(header: BatchHeader) -> None:
    attributes = header.attributes
    count = header.record_count
    if count <= 0 or count != header.last_offset_delta + 1:
        raise _invalid(f"the batch counts {count} records, its last offset delta is {header.last_offset_delta}")
    if attributes & CONTROL_BIT:
        raise _invalid("clients may not write control batches")
    if header.producer_id >= 0:
        if header.base_sequence < 0 or header.producer_epoch < 0:
            raise _invalid(
                f"producer id {header.producer_id} comes with epoch {header.producer_epoch}"
                f" and sequence {header.base_sequence}"
            )
    elif attributes & TRANSACTIONAL_BIT:
        raise _invalid("a transactional batch needs a producer id")
    if attributes & LOG_APPEND_TIME_BIT:
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, "clients may not set log append time")


def _check_body(view: memoryview, header: BatchHeader, rules: _Rules, allow: Allow) -> int:
    """Check every record; return the newest timestamp."""
    body = view[HEADER_SIZE : header.size_bytes]
    scanner = RecordScanner(header.record_count, header.base_timestamp, *rules)
    try:
        for window in decompressed(header.compression, body, allow):
            scanner.feed(window)
    except ProtocolError as error:
        raise _invalid(f"the records cannot be decompressed: {error}") from None
    verdict, index, newest, violations = scanner.finish()
    if verdict != OK:
        raise _invalid(f"record {index} of the batch: {REASONS[verdict]}")
    if violations:
        raise _bad_records(violations)
    return newest


def _bad_records(violations: list[tuple[int, int]]) -> BadRecordsError:
    """One late timestamp decides the code, as in Kafka."""
    timed = any(verdict == TIMESTAMP_OUT_OF_RANGE for _, verdict in violations)
    code = ErrorCode.INVALID_TIMESTAMP if timed else ErrorCode.INVALID_RECORD
    return BadRecordsError(code, [BadRecord(index, REASONS[verdict]) for index, verdict in violations])


def _correct_max_timestamp(view: memoryview, header: BatchHeader, newest: int) -> BatchHeader:
    if view.readonly:
        # Nothing can be corrected here, and a wrong value would mislead lookups by time and retention.
        raise _invalid(f"the batch has max timestamp {header.max_timestamp}, its records have {newest}")
    return header._replace(max_timestamp=newest, crc=patch_max_timestamp(view, 0, newest))
