"""Which partition a record goes to: by its key as Java's client decides it, or sticky when it has none.

Clients in several languages must put one key into one partition, so the hash is Java's: murmur2 with its
seed, the sign bit cleared, modulo the number of partitions. Records without a key stay on one partition while
a batch fills and move to another with the next (KIP-480), which makes large batches.
"""

from __future__ import annotations

import random

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Unsigned 32-bit murmur2 as in Kafka's Java client."""
    length = len(data)
    h = _SEED ^ length
    end = length & ~3
    for position in range(0, end, 4):
        k = int.from_bytes(data[position : position + 4], "little") * _M & _MASK
        k ^= k >> 24
        h = (h * _M & _MASK) ^ (k * _M & _MASK)
    if length > end:
        h ^= int.from_bytes(data[end:], "little")
        h = h * _M & _MASK
    h ^= h >> 13
    h = h * _M & _MASK
    return h ^ (h >> 15)


def partition_for_key(key: bytes, partition_count: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


class StickyPartitioner:
    """The partition of one topic for records without a key."""

    def __init__(self) -> None:
        self._current = -1

    def partition(self, partition_count: int) -> int:
        if not 0 <= self._current < partition_count:
            self._current = random.randrange(partition_count)
        return self._current

    def move_on(self, partition_count: int) -> None:
        """A batch was sent; choose another partition if there is one."""
        if partition_count > 1:
            step = random.randrange(1, partition_count)
            self._current = (self.partition(partition_count) + step) % partition_count
