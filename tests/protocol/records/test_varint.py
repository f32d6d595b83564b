from __future__ import annotations

import pytest
from aiokafka.record.util import decode_varint_py, encode_varint_py
from hypothesis import given
from hypothesis import strategies as st

from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.records.varint import encode_varint, read_raw

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)


def read_varint(data: bytes, position: int, bits: int = 32) -> tuple[int, int]:
    raw, position = read_raw(data, position, bits)
    return (raw >> 1) ^ -(raw & 1), position


def read_varlong(data: bytes, position: int) -> tuple[int, int]:
    return read_varint(data, position, 64)


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (0, "00"),
        (-1, "01"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (-8192, "ff7f"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
        (-(2**63), "ffffffffffffffffff01"),
    ],
)
def test_known_encodings(value: int, data: str) -> None:
    assert encode_varint(value).hex() == data
    assert read_varlong(bytes.fromhex(data), 0) == (value, len(data) // 2)


@given(INT32, st.binary(max_size=3))
def test_varint_round_trip_at_any_position(value: int, before: bytes) -> None:
    data = before + encode_varint(value) + b"\xff"
    assert read_varint(data, len(before)) == (value, len(data) - 1)


@given(INT64)
def test_varlong_agrees_with_aiokafka(value: int) -> None:
    theirs = bytearray()
    encode_varint_py(value, theirs.append)
    assert encode_varint(value) == theirs
    assert read_varlong(bytes(theirs), 0) == decode_varint_py(theirs) == (value, len(theirs))


@pytest.mark.parametrize("data", ["ffffffff10", "ffffffff8f01", "ffffffffffffffffffffff", "8080808010"])
def test_varint_beyond_32_bits_is_refused(data: str) -> None:
    with pytest.raises(ProtocolError):
        read_varint(bytes.fromhex(data), 0)


@pytest.mark.parametrize("data", ["ffffffffffffffffff02", "ffffffffffffffffffff01", "ff" * 20])
def test_varlong_beyond_64_bits_is_refused(data: str) -> None:
    with pytest.raises(ProtocolError):
        read_varlong(bytes.fromhex(data), 0)


def test_data_that_ends_inside_a_varint() -> None:
    with pytest.raises(IndexError):
        read_varint(b"\x80\x80", 0)
