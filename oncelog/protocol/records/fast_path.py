"""Fast paths in C for the most common batches. Each gives its result, or None if the batch is not of that kind.

The caller then uses the Python code, as it does wherever the extension could not be built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oncelog.protocol.records.record import Record

try:
    from oncelog.protocol.records._native import encode_plain_records as encode_plain_records
    from oncelog.protocol.records._native import read_plain_batch as read_plain_batch
except ImportError:

    def encode_plain_records(records: list[Record], base_timestamp: int, /) -> bytes | None:
        """The records, numbered from 0, if none has headers."""
        return None

    def read_plain_batch(
        batch: memoryview, compacted: bool, timestamp_min: int, timestamp_max: int, /
    ) -> tuple[int, ...] | None:
        """The header of a single, whole, uncompressed batch that a broker may store as it is, if its CRC is right."""
        return None
