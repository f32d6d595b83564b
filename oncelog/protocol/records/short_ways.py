"""Short ways for what is usual, in C: each gives its result, or None for whatever is not of the usual shape.

The long way, in Python, is taken then; and always where the extension could not be built.
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
        """The records without headers, numbered from 0."""
        return None

    def read_plain_batch(
        batch: memoryview, compacted: bool, timestamp_min: int, timestamp_max: int, /
    ) -> tuple[int, ...] | None:
        """The header of a batch that a broker may store as it is, if its checksum is right: one, whole, plain."""
        return None
