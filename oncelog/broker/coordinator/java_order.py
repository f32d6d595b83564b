"""The order in which Java's hash tables iterate.

Kafka's assignors walk members, topics and partitions in the order of a HashMap, and whoever comes first gets the
partition that is left over. Walking them in the same order gives a group the same assignment on either broker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")

_CAPACITY_MIN = 16
_INT32 = 0xFFFFFFFF


def java_hash(text: str) -> int:
    """Java's String.hashCode, over UTF-16 code units, as 32 bits without a sign."""
    value = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(encoded), 2):
        value = (value * 31 + (encoded[index] << 8 | encoded[index + 1])) & _INT32
    return value


def in_text_order(texts: Iterable[str]) -> list[str]:
    return _in_table_order(texts, java_hash)


def in_uuid_order(ids: Iterable[bytes]) -> list[bytes]:
    return _in_table_order(ids, _uuid_hash)


def in_number_order(numbers: Iterable[int]) -> list[int]:
    """Of integers that are not negative."""
    return _in_table_order(numbers, _same)


def _in_table_order(items: Iterable[T], hash_of: Callable[[T], int]) -> list[T]:
    """A table doubles when it is filled to three quarters; within a bucket we do not know the order in which
    Kafka filled it, and take the natural one."""
    natural = sorted(items)  # type: ignore[type-var]
    capacity = _CAPACITY_MIN
    while len(natural) > capacity * 3 // 4:
        capacity *= 2
    return sorted(natural, key=lambda item: _spread(hash_of(item)) & (capacity - 1))


def _spread(value: int) -> int:
    return value ^ (value >> 16)


def _uuid_hash(uuid: bytes) -> int:
    words = (int.from_bytes(uuid[start : start + 4], "big") for start in range(0, 16, 4))
    value = 0
    for word in words:
        value ^= word
    return value


def _same(number: int) -> int:
    return number
