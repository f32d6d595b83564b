from __future__ import annotations

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.client.partitioner import StickyPartitioner, murmur2, partition_for_key


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_that_of_javas_client(data: bytes, expected: int) -> None:
    assert murmur2(data) == expected & 0xFFFFFFFF


def _kafka_python_murmur2(key: bytes) -> int:
    with warnings.catch_warnings():
        # It reads its schemas in a way that is deprecated in Python 3.11 only.
        warnings.simplefilter("ignore", DeprecationWarning)
        from kafka.partitioner.default import murmur2 as reference
    return int(reference(key))


@given(st.binary(max_size=64), st.integers(1, 1000))
def test_a_key_goes_where_another_client_puts_it(key: bytes, partition_count: int) -> None:
    expected = (_kafka_python_murmur2(key) & 0x7FFFFFFF) % partition_count
    assert partition_for_key(key, partition_count) == expected


def test_records_without_a_key_stay_until_their_batch_is_sent() -> None:
    sticky = StickyPartitioner()
    first = sticky.partition(10)
    assert {sticky.partition(10) for _ in range(100)} == {first}
    sticky.move_on(10)
    assert sticky.partition(10) != first


def test_a_single_partition_is_always_chosen() -> None:
    sticky = StickyPartitioner()
    sticky.move_on(1)
    assert sticky.partition(1) == 0
