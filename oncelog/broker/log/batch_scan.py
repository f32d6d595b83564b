"""Walking the batches of a `.log` file.

`iter_headers` reads as little as it can and trusts what it finds; `iter_checked` reads everything and proves
each batch by its CRC. Both stop with `CorruptBatch` where a batch cannot be, which the caller judges: behind
the recovery point it is a torn write, before it it is damage.
"""

from __future__ import annotations

from collections.abc import Iterator

from oncelog.broker.log.disk import Disk
from oncelog.protocol.records.batch import HEADER, HEADER_SIZE, LOG_OVERHEAD, MAGIC, BatchHeader, compute_crc

_WINDOW_BYTES = 16 * 1024
_CHUNK_BYTES = 1024 * 1024


class CorruptBatch(Exception):
    """There is no valid batch at this position of the file."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"at position {position}: {reason}")
        self.position = position
        self.reason = reason


def parse_header(buffer: bytes | memoryview, at: int, position: int, end: int) -> BatchHeader:
    """The header at `buffer[at]`, which is `position` in a file whose data goes up to `end`."""
    if end - position < HEADER_SIZE:
        raise CorruptBatch(position, f"{end - position} bytes are no batch")
    header = BatchHeader._make(HEADER.unpack_from(buffer, at))
    if header.magic != MAGIC:
        raise CorruptBatch(position, f"magic {header.magic}")
    if header.batch_length < HEADER_SIZE - LOG_OVERHEAD or header.last_offset_delta < 0:
        raise CorruptBatch(position, f"length {header.batch_length}, offset delta {header.last_offset_delta}")
    if position + LOG_OVERHEAD + header.batch_length > end:
        raise CorruptBatch(position, f"a batch of {header.size_bytes} bytes ends behind {end}")
    return header


def iter_headers(disk: Disk, fd: int, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch in [position, end)."""
    window = b""
    window_start = position
    while position < end:
        at = position - window_start
        if at + HEADER_SIZE > len(window):
            window = disk.pread(fd, min(_WINDOW_BYTES, end - position), position)
            window_start, at = position, 0
            if len(window) < min(HEADER_SIZE, end - position):
                raise CorruptBatch(position, "the file is shorter than it was")
        header = parse_header(window, at, position, end)
        yield position, header
        position += LOG_OVERHEAD + header.batch_length


def iter_checked(
    disk: Disk, fd: int, position: int, end: int, next_offset: int, *, gaps: bool = True
) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Position, header and bytes of each batch in [position, end), proven by CRC and by its offset.

    The offset is outside the checksum. It must be the next one, or at least not before it if compaction may
    have left gaps.
    """
    chunk = memoryview(b"")
    chunk_start = position
    while position < end:
        at = position - chunk_start
        if at + HEADER_SIZE > len(chunk):
            chunk, chunk_start, at = _read_chunk(disk, fd, position, end, _CHUNK_BYTES), position, 0
        header = parse_header(chunk, at, position, end)
        size = LOG_OVERHEAD + header.batch_length
        if at + size > len(chunk):
            chunk, chunk_start, at = _read_chunk(disk, fd, position, end, size), position, 0
        batch = chunk[at : at + size]
        if compute_crc(batch) != header.crc:
            raise CorruptBatch(position, "the checksum is wrong")
        if header.base_offset < next_offset or (header.base_offset > next_offset and not gaps):
            raise CorruptBatch(position, f"offset {header.base_offset} where {next_offset} is next")
        yield position, header, batch
        next_offset = header.base_offset + header.last_offset_delta + 1
        position += size


def is_zero(disk: Disk, fd: int, position: int, end: int) -> bool:
    """Whether [position, end) is nothing but zeros, as the room behind the last batch is."""
    while position < end:
        chunk = disk.pread_exactly(fd, min(_CHUNK_BYTES, end - position), position)
        if chunk.count(0) != len(chunk):
            return False
        position += len(chunk)
    return True


def _read_chunk(disk: Disk, fd: int, position: int, end: int, size_bytes: int) -> memoryview:
    size_bytes = min(max(size_bytes, _CHUNK_BYTES), end - position)
    return memoryview(disk.pread_exactly(fd, size_bytes, position))
