"""Which partition each row of an Arrow batch goes to, and which Spark task writes that partition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from oncelog.client.partitioner import partition_for_key
from oncelog.protocol.records.columns import Column, read_field

Int32s: TypeAlias = Any
"""A numpy array; its types are known only where the extra `spark` is installed."""

_SPARK_SEED = 42
_MASK = 0xFFFFFFFF


def plain_partition_keys(keys: Column | None, row_count: int, partition_count: int) -> bytes:
    """The partition of each key as Java's client chooses it, as int32 in the machine's byte order; -1 for null."""
    found: Int32s = np.full(row_count, -1, dtype=np.int32)
    for row in range(row_count if keys is not None else 0):
        assert keys is not None
        key = read_field(keys, row)
        if key is not None:
            found[row] = partition_for_key(key, partition_count)
    return bytes(found.tobytes())


partition_keys: Callable[[Column | None, int, int], bytes]
try:
    from oncelog.protocol.records._native import partition_keys
except ImportError:
    partition_keys = plain_partition_keys


def choose_partitions(keys: Column | None, row_count: int, partition_count: int, turn: int) -> Int32s:
    """The partition of each row; rows without a key are dealt out in runs, beginning at partition `turn`.

    A run keeps neighbours together, which makes large record batches, as the Java client's sticky partitioner
    does over time (KIP-480).
    """
    if keys is None:
        return _deal_out(row_count, partition_count, turn)
    chosen: Int32s = np.frombuffer(partition_keys(keys, row_count, partition_count), dtype=np.int32)
    keyless = np.flatnonzero(chosen < 0)
    if len(keyless):
        chosen = chosen.copy()
        chosen[keyless] = _deal_out(len(keyless), partition_count, turn)
    return chosen


def _deal_out(row_count: int, partition_count: int, turn: int) -> Int32s:
    runs: Int32s = np.arange(row_count, dtype=np.int64) * partition_count // max(row_count, 1)
    return ((runs + turn) % partition_count).astype(np.int32)


def lane_keys(lane_count: int) -> list[int]:
    """For each lane an int that Spark's hash partitioning sends to the task of that number.

    Spark distributes rows by pmod(murmur3(column, seed 42), tasks). Arbitrary numbers would collide and leave
    tasks without work; these do not. A Spark that hashed in another way would only balance worse.
    """
    keys = [-1] * lane_count
    missing = lane_count
    candidate = 0
    while missing:
        lane = _signed(_murmur3(candidate)) % lane_count
        if keys[lane] < 0:
            keys[lane] = candidate
            missing -= 1
        candidate += 1
    return keys


def _murmur3(value: int) -> int:
    """Murmur3 (32 bits, x86) of one int, as Spark's HashPartitioning computes it."""
    k = value * 0xCC9E2D51 & _MASK
    k = (k << 15 | k >> 17) & _MASK
    h = _SPARK_SEED ^ (k * 0x1B873593 & _MASK)
    h = (h << 13 | h >> 19) & _MASK
    h = (h * 5 + 0xE6546B64) & _MASK
    h ^= 4
    h ^= h >> 16
    h = h * 0x85EBCA6B & _MASK
    h ^= h >> 13
    h = h * 0xC2B2AE35 & _MASK
    return h ^ h >> 16


def _signed(value: int) -> int:
    return value - 2**32 if value & 0x80000000 else value
