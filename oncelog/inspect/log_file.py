"""Walks the batches of a `.log` file that may be damaged anywhere.

A batch whose CRC is wrong is handed out and marked, as its length still leads to the next one. Where no batch
can begin, the walk ends with the reason.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path

from oncelog.broker.log.batch_scan import parse_header
from oncelog.named_tuple import NamedTuple
from oncelog.protocol.records.batch import BatchHeader, compute_crc

_CHUNK_BYTES = 1024 * 1024


class StoredBatch(NamedTuple):
    position: int
    header: BatchHeader
    data: memoryview
    crc_ok: bool


class LogFile:
    """Use as a context manager; the views of batches are valid until it is left."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size_bytes = 0
        self._view = memoryview(b"")
        self._map: mmap.mmap | None = None

    def __enter__(self) -> LogFile:
        with self.path.open("rb") as file:
            self.size_bytes = self.path.stat().st_size
            if self.size_bytes:
                self._map = mmap.mmap(file.fileno(), self.size_bytes, prot=mmap.PROT_READ)
                self._view = memoryview(self._map)
        return self

    def __exit__(self, *_: object) -> None:
        # The map goes with the last view of it: closing it here would fail while a caller still holds a batch.
        self._view = memoryview(b"")
        self._map = None

    def batches(self) -> Iterator[StoredBatch]:
        """Raises CorruptBatch where no batch can begin."""
        position = 0
        while position < self.size_bytes:
            header = parse_header(self._view, position, position, self.size_bytes)
            data = self._view[position : position + header.size_bytes]
            yield StoredBatch(position, header, data, compute_crc(data) == header.crc)
            position += header.size_bytes

    def is_zero_from(self, position: int) -> bool:
        """Whether only zeros follow, as in a file that was extended before it was written."""
        chunks = (self._view[start : start + _CHUNK_BYTES] for start in range(position, self.size_bytes, _CHUNK_BYTES))
        return all(chunk.tobytes().count(0) == len(chunk) for chunk in chunks)
