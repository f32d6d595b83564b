"""Single records, which only live inside a batch.

    length            varint    bytes that follow this field
    attributes        int8      unused
    timestamp_delta   varlong   to the batch's base_timestamp
    offset_delta      varint    to the batch's base_offset
    key, value        varint length, -1 for null, and the bytes
    header count      varint    then per header a key (UTF-8, never null) and a value, both like the above

The broker never decodes records that it merely stores: this is for its internal topics, compaction and tools.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.named_tuple import NamedTuple
from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.records.batch import HEADER_SIZE, BatchHeader, read_header
from oncelog.protocol.records.compression import DECOMPRESSED_SIZE_BYTES_MAX, decompress
from oncelog.protocol.records.varint import read_varint, read_varlong

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Record(NamedTuple):
    """One record. Header keys that are not UTF-8 survive as surrogate escapes: no broker refuses them."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = []
    attributes: int = 0


def iter_records(batch: bytes | bytearray | memoryview) -> Iterator[Record]:
    """Give the records of the batch at the front of `batch`; ProtocolError where they are malformed."""
    header = read_header(batch)
    if header.size_bytes > len(batch):
        raise ProtocolError(f"a batch of {header.size_bytes} bytes is cut off after {len(batch)}")
    body = memoryview(batch)[HEADER_SIZE : header.size_bytes]
    if header.record_count == 0 and not body:
        return
    # Copying once lets keys and values be cut out as bytes, so that no record pins a large receive buffer.
    data = bytes(decompress(header.compression, body, DECOMPRESSED_SIZE_BYTES_MAX))
    try:
        yield from _decode_records(data, header)
    except IndexError:
        raise ProtocolError("the records of a batch end too early") from None


def _decode_records(data: bytes, header: BatchHeader) -> Iterator[Record]:
    append_time = header.max_timestamp if header.log_append_time else None
    position = 0
    for _ in range(header.record_count):
        length, position = read_varint(data, position)
        end = position + length
        if length < 0 or end > len(data):
            raise ProtocolError(f"a record has length {length}, {len(data) - position} bytes are left")
        attributes = data[position]
        timestamp_delta, position = read_varlong(data, position + 1)
        offset_delta, position = read_varint(data, position)
        key, position = _read_nullable(data, position, end)
        value, position = _read_nullable(data, position, end)
        header_count, position = read_varint(data, position)
        if not 0 <= header_count <= end - position:
            raise ProtocolError(f"a record claims {header_count} headers")
        headers, position = _read_headers(data, position, end, header_count)
        if position != end:
            raise ProtocolError(f"a record's length is off by {position - end} bytes")
        timestamp = append_time if append_time is not None else header.base_timestamp + timestamp_delta
        yield Record(header.base_offset + offset_delta, timestamp, key, value, headers, attributes)
    if position != len(data):
        raise ProtocolError(f"{len(data) - position} bytes follow the last record of a batch")


def _read_headers(data: bytes, position: int, end: int, count: int) -> tuple[list[tuple[str, bytes | None]], int]:
    headers = []
    for _ in range(count):
        key, position = _read_nullable(data, position, end)
        if key is None:
            raise ProtocolError("a record header has a null key")
        value, position = _read_nullable(data, position, end)
        headers.append((key.decode("utf-8", "surrogateescape"), value))
    return headers, position


def _read_nullable(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    # Most lengths take one byte, for which a call would cost more than the work.
    length = data[position]
    if length < 0x80:
        length = (length >> 1) ^ -(length & 1)
        position += 1
    else:
        length, position = read_varint(data, position)
    if length == -1:
        return None, position
    if length < 0 or length > end - position:
        raise ProtocolError(f"a field has length {length}, {end - position} bytes are left in its record")
    return data[position : position + length], position + length
