"""Record batches of magic 2, the only unit that Kafka stores and sends.

    position  size  field
           0     8  base_offset           patched by the broker, outside the CRC
           8     4  batch_length          bytes that follow this field
          12     4  leader_epoch          patched by the broker, outside the CRC
          16     1  magic                 2
          17     4  crc                   CRC32C of everything from the attributes to the end
          21     2  attributes            bits 0-2 codec, 3 log append time, 4 transactional, 5 control,
                                          6 delete horizon
          23     4  last_offset_delta     stays when compaction removes the last record
          27     8  base_timestamp        or the delete horizon, when bit 6 is set (KIP-534)
          35     8  max_timestamp         or the append time, when bit 3 is set
          43     8  producer_id
          51     2  producer_epoch
          53     4  base_sequence
          57     4  record_count
          61     …  records, compressed as one block when a codec is set

The functions read and patch batches where they lie; only `build_batch`, `rebuild_batch` and `recompress_batch`
make new ones.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from oncelog.named_tuple import NamedTuple
from oncelog.protocol.errors import ErrorCode, KafkaError, ProtocolError
from oncelog.protocol.records.checksum import crc32c
from oncelog.protocol.records.compression import Allow, Compression, check_size, compress, compressed, decompressed
from oncelog.protocol.records.fast_path import encode_plain_records
from oncelog.protocol.records.varint import encode_varint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from oncelog.protocol.records.record import Record

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE: Final = 61
LOG_OVERHEAD: Final = 12
"""The bytes that `batch_length` does not count."""

LENGTH_POSITION: Final = 8
MAGIC: Final = 2
MAGIC_POSITION: Final = 16
CRC_POSITION: Final = 17
ATTRIBUTES_POSITION: Final = 21
MAX_TIMESTAMP_POSITION: Final = 35

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1
NO_LEADER_EPOCH: Final = -1
SEQUENCE_MASK: Final = 0x7FFFFFFF

_INT64: Final = struct.Struct(">q")
_INT32: Final = struct.Struct(">i")
_INT16: Final = struct.Struct(">h")
_UINT32: Final = struct.Struct(">I")

_CODECS: Final = tuple(Compression)
_NULL: Final = encode_varint(-1)


class TimestampType(IntEnum):
    """Who stamped the records: the producer, or the broker when it appended them."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """The 61 bytes before the records, in their order."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        return LOG_OVERHEAD + self.batch_length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def compression(self) -> Compression:
        codec_id = self.attributes & CODEC_MASK
        if codec_id >= len(_CODECS):
            raise ProtocolError(f"compression {codec_id} is not known")
        return _CODECS[codec_id]

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME_BIT)

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType.LOG_APPEND_TIME if self.log_append_time else TimestampType.CREATE_TIME

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record; sequences go from 2^31-1 on to 0."""
        if self.base_sequence < 0:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & SEQUENCE_MASK

    @property
    def delete_horizon_ms(self) -> int | None:
        """From when on compaction may drop the tombstones in this batch (KIP-534)."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None


def read_header(buf: bytes | bytearray | memoryview, position: int = 0) -> BatchHeader:
    """Read the header at `position`. The records behind it need not be there."""
    if len(buf) - position < HEADER_SIZE:
        raise ProtocolError(f"a batch header needs {HEADER_SIZE} bytes, {len(buf) - position} are left")
    header = BatchHeader._make(HEADER.unpack_from(buf, position))
    if header.magic != MAGIC:
        raise ProtocolError(f"a batch has magic {header.magic} instead of {MAGIC}")
    if header.batch_length < HEADER_SIZE - LOG_OVERHEAD:
        raise ProtocolError(f"a batch has length {header.batch_length}, its header alone is longer")
    return header


def iter_headers(buf: bytes | bytearray | memoryview) -> Iterator[tuple[int, BatchHeader]]:
    """Give position and header of each whole batch; stop quietly at one that is cut off, as in a fetch."""
    position = 0
    while len(buf) - position >= HEADER_SIZE:
        header = read_header(buf, position)
        end = position + header.size_bytes
        if end > len(buf):
            return
        yield position, header
        position = end


def compute_crc(batch: memoryview) -> int:
    """CRC32C of one batch, which the view holds exactly."""
    return crc32c(batch[ATTRIBUTES_POSITION:])


def patch_offset_and_epoch(buf: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int) -> None:
    """Give a batch its place in the log; the CRC does not cover these fields."""
    _INT64.pack_into(buf, position, base_offset)
    _INT32.pack_into(buf, position + LOG_OVERHEAD, leader_epoch)


def patch_max_timestamp(buf: bytearray | memoryview, position: int, timestamp: int) -> int:
    """Correct what the header says about the newest record; return the new CRC."""
    _INT64.pack_into(buf, position + MAX_TIMESTAMP_POSITION, timestamp)
    return _patch_crc(buf, position)


def patch_max_timestamp_log_append(buf: bytearray | memoryview, position: int, timestamp: int) -> int:
    """Stamp all records with the broker's time, by the header alone; return the new CRC."""
    (attributes,) = _INT16.unpack_from(buf, position + ATTRIBUTES_POSITION)
    _INT16.pack_into(buf, position + ATTRIBUTES_POSITION, attributes | LOG_APPEND_TIME_BIT)
    return patch_max_timestamp(buf, position, timestamp)


def _patch_crc(buf: bytearray | memoryview, position: int) -> int:
    (batch_length,) = _INT32.unpack_from(buf, position + LENGTH_POSITION)
    crc = compute_crc(memoryview(buf)[position : position + LOG_OVERHEAD + batch_length])
    _UINT32.pack_into(buf, position + CRC_POSITION, crc)
    return crc


def build_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
    compression: Compression = Compression.NONE,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    base_timestamp: int | None = None,
) -> bytearray:
    """Build a batch as a producer does: records are numbered from `base_offset`, whatever their own offsets.

    `base_timestamp` defaults to the first record's timestamp. With LOG_APPEND_TIME the newest timestamp
    counts for all records.
    """
    assert records, "a batch holds at least one record"
    if base_timestamp is None:
        base_timestamp = records[0].timestamp
    attributes = compression.value
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        attributes |= LOG_APPEND_TIME_BIT
    if transactional:
        attributes |= TRANSACTIONAL_BIT
    if control:
        attributes |= CONTROL_BIT
    body = encode_plain_records(records, base_timestamp) if type(records) is list else None
    if body is None:
        body = _encode_records(enumerate(records), base_timestamp)
    if compression is not Compression.NONE:
        body = compress(compression, body)
    head = HEADER.pack(
        *(base_offset, 0, leader_epoch, MAGIC, 0),
        *(attributes, len(records) - 1, base_timestamp, _max_timestamp(records)),
        *(producer_id, producer_epoch, base_sequence, len(records)),
    )
    return _seal(bytearray(head) + body)


def rebuild_batch(header: BatchHeader, records: Sequence[Record], *, delete_horizon_ms: int | None = None) -> bytearray:
    """Build what compaction leaves of a batch: some of its records, or none, at their own offsets.

    Offset range, producer and sequences stay those of the whole batch, so that a producer's state can be
    recovered from a batch even when all its records are gone. A delete horizon, once set, stays.
    """
    if delete_horizon_ms is None:
        delete_horizon_ms = header.delete_horizon_ms
    if not records:
        kept = header._replace(
            attributes=header.attributes & ~(CODEC_MASK | DELETE_HORIZON_BIT),
            base_timestamp=NO_TIMESTAMP,
            record_count=0,
        )
        return assemble_batch(kept, b"")
    base_timestamp = records[0].timestamp if delete_horizon_ms is None else delete_horizon_ms
    kept = header._replace(
        attributes=header.attributes | (0 if delete_horizon_ms is None else DELETE_HORIZON_BIT),
        base_timestamp=base_timestamp,
        max_timestamp=_max_timestamp(records),
        record_count=len(records),
    )
    pairs = ((record.offset - header.base_offset, record) for record in records)
    return assemble_batch(kept, _encode_records(pairs, base_timestamp))


def _max_timestamp(records: Sequence[Record]) -> int:
    newest = records[0].timestamp if len(records) == 1 else max(record.timestamp for record in records)
    return max(NO_TIMESTAMP, newest)


def recompress_batch(
    batch: memoryview,
    header: BatchHeader,
    compression: Compression,
    level: int | None = None,
    *,
    size_bytes_max: int,
    allow: Allow = check_size,
) -> bytearray:
    """Build the same batch with its records in another codec; nothing else of its header changes.

    KafkaError if the new batch has more than `size_bytes_max`. `allow` is asked while the records are decompressed.
    """
    body = batch[HEADER_SIZE : header.size_bytes]
    plain_size_bytes = 0
    if compression is Compression.ZSTD:
        # Its tables are as large as the records need, if it knows that beforehand.
        plain_size_bytes = sum(map(len, decompressed(header.compression, body, allow)))
    rebuilt = bytearray(HEADER.pack(*header._replace(attributes=header.attributes & ~CODEC_MASK | compression)))
    for piece in compressed(compression, decompressed(header.compression, body, allow), plain_size_bytes, level):
        rebuilt += piece
        if len(rebuilt) > size_bytes_max:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"recompressed as compression.type demands, the batch has more than {size_bytes_max} bytes "
                "(max.message.bytes)",
            )
    return _seal(rebuilt)


def assemble_batch(
    header: BatchHeader, plain_records: bytes | bytearray | memoryview, level: int | None = None
) -> bytearray:
    """Compress the records, and put a header before them that has the right length and CRC."""
    body = plain_records
    if header.attributes & CODEC_MASK:
        body = compress(header.compression, plain_records, level)
    return _seal(bytearray(HEADER.pack(*header)) + body)


def _seal(batch: bytearray) -> bytearray:
    """Give the batch the length and the CRC that its bytes have."""
    _INT32.pack_into(batch, LENGTH_POSITION, len(batch) - LOG_OVERHEAD)
    _UINT32.pack_into(batch, CRC_POSITION, compute_crc(memoryview(batch)))
    return batch


def _encode_records(records: Iterable[tuple[int, Record]], base_timestamp: int) -> bytes:
    """Write records, each with its offset delta; see parser.py for their layout."""
    out: list[bytes] = []
    for offset_delta, (_, timestamp, key, value, headers, attributes) in records:
        parts = [bytes((attributes & 0xFF,)), encode_varint(timestamp - base_timestamp), encode_varint(offset_delta)]
        _append_nullable(parts, key)
        _append_nullable(parts, value)
        parts.append(encode_varint(len(headers)))
        for name, content in headers:
            _append_nullable(parts, name.encode("utf-8", "surrogateescape"))
            _append_nullable(parts, content)
        body = b"".join(parts)
        out += (encode_varint(len(body)), body)
    return b"".join(out)


def _append_nullable(parts: list[bytes], data: bytes | None) -> None:
    if data is None:
        parts.append(_NULL)
    else:
        parts += (encode_varint(len(data)), data)
