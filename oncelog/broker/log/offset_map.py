"""The newest offset of each key in the part of a log that is being compacted.

A short key stands for itself, a longer one is represented by a digest of 40 bytes, so that an entry's memory
has a bound; the lengths keep the two apart. The map takes as many keys as fit in its memory. What lies behind
the last batch that fitted is left for another pass.
"""

from __future__ import annotations

from hashlib import blake2b

KEY_BYTES_MAX = 40
ENTRY_BYTES = 176
"""What an entry costs at most: the key 80, its offset 32, and 64 in a hash table that has just grown."""


class OffsetMap:
    """Filled by `record_filter.index_records`, batch by batch."""

    __slots__ = ("capacity", "latest_offset", "offsets")

    def __init__(self, size_bytes: int, load_factor: float) -> None:
        self.capacity = max(1, int(size_bytes / ENTRY_BYTES * load_factor))
        self.offsets: dict[bytes, int] = {}
        self.latest_offset = -1
        """The offset up to which the map is complete."""

    @property
    def is_full(self) -> bool:
        """Asked between batches: a batch is taken whole, so that every pass gets ahead."""
        return len(self.offsets) >= self.capacity


def digest(key: bytes) -> bytes:
    """What stands for a key of `KEY_BYTES_MAX` bytes or more."""
    return blake2b(key, digest_size=KEY_BYTES_MAX).digest()
