"""Single records, which exist only inside a batch. `parser` has their layout.

The broker does not decode records that it merely stores; its internal topics, compaction and the tools need them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.named_tuple import NamedTuple
from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.records.batch import HEADER_SIZE, BatchHeader, read_header
from oncelog.protocol.records.compression import DECOMPRESSED_SIZE_BYTES_MAX, decompress
from oncelog.protocol.records.parser import RecordParser
from oncelog.protocol.records.verdicts import REASONS

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
    yield from _decode_records(data, header)


def _decode_records(data: bytes, header: BatchHeader) -> Iterator[Record]:
    parser = RecordParser(header.record_count, header.base_timestamp, keep=True)
    parser.fed = len(data)
    parser.ended = True
    append_time = header.max_timestamp if header.log_append_time else None
    base_offset = header.base_offset
    for record in parser.parse(data):
        assert record is not None
        attributes, timestamp, offset_delta, key, value, headers = record
        if append_time is not None:
            timestamp = append_time
        yield Record(base_offset + offset_delta, timestamp, key, value, headers, attributes)
    if verdict := parser.verdict():
        raise ProtocolError(f"record {parser.index} of the batch: {REASONS[verdict]}")
