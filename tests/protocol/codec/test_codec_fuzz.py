"""The promise of every decoder: a good value or ProtocolError, whatever the bytes, and little memory for either."""

from __future__ import annotations

import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.protocol.codec import ELEMENTS_MAX, decode, encode
from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.messages.list_groups import ListGroupsRequest
from oncelog.protocol.primitives import encode_uvarint
from oncelog.protocol.schema import Message
from tests.protocol.declarations import EXAMPLES, MESSAGE_VERSIONS, name_of, sample, values

every_version = pytest.mark.parametrize(("message", "version"), MESSAGE_VERSIONS, ids=name_of)

HUGE_LENGTHS = [
    bytes.fromhex("7f ff ff ff"),
    bytes.fromhex("80 00 00 00"),
    bytes.fromhex("ff ff ff ff 07"),
    bytes.fromhex("ff ff ff ff 0f"),
]


def check_promise(message: type[Message], version: int, data: bytes) -> None:
    try:
        value = decode(message, version, data)
    except ProtocolError:
        return
    encoded = encode(value, version)
    assert encode(decode(message, version, encoded), version) == encoded


@every_version
@settings(max_examples=EXAMPLES)
@given(data=st.binary(max_size=200))
def test_random_bytes(message: type[Message], version: int, data: bytes) -> None:
    check_promise(message, version, data)


@every_version
@settings(max_examples=EXAMPLES)
@given(data=st.data(), flips=st.lists(st.integers(0, 2**16), min_size=1, max_size=4))
def test_flipped_bits(message: type[Message], version: int, data: st.DataObject, flips: list[int]) -> None:
    encoded = bytearray(encode(data.draw(values(message, version)), version))
    for flip in flips if encoded else ():
        encoded[flip // 8 % len(encoded)] ^= 1 << flip % 8
    check_promise(message, version, bytes(encoded))


@every_version
def test_truncation_at_every_byte(message: type[Message], version: int) -> None:
    encoded = encode(sample(message, version), version)
    for size_bytes in range(len(encoded)):
        with pytest.raises(ProtocolError):
            decode(message, version, encoded[:size_bytes])


@every_version
def test_any_byte_replaced(message: type[Message], version: int) -> None:
    encoded = encode(sample(message, version), version)
    for position in range(len(encoded)):
        for byte in (0x00, 0x01, 0x7F, 0x80, 0xFF):
            check_promise(message, version, encoded[:position] + bytes([byte]) + encoded[position + 1 :])


def with_huge_lengths(encoded: bytes, positions: range) -> list[bytes]:
    return [encoded[:at] + length + encoded[at + len(length) :] for at in positions for length in HUGE_LENGTHS]


@every_version
def test_a_huge_length_anywhere(message: type[Message], version: int) -> None:
    encoded = encode(sample(message, version), version)
    for frame in with_huge_lengths(encoded, range(len(encoded))):
        check_promise(message, version, frame)


@every_version
def test_a_huge_length_allocates_little(message: type[Message], version: int) -> None:
    # Only short frames, because in a long function each traced allocation takes long to find its line.
    encoded = encode(sample(message, version), version)
    frames = with_huge_lengths(encoded[:30], range(min(30, len(encoded))))
    decode(message, version, encoded)  # compiles the decoder, which is not to be counted
    # What the threads of other tests' brokers allocate meanwhile is counted as well, but not each time.
    assert any(peak_bytes(message, version, frames) < 20_000 for _ in range(5))


def peak_bytes(message: type[Message], version: int, frames: list[bytes]) -> int:
    tracemalloc.start()
    try:
        for frame in frames:
            with suppress(ProtocolError):
                decode(message, version, frame)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_more_elements_than_the_budget_are_refused_though_they_are_there() -> None:
    empty_strings = b"\x01" * (ELEMENTS_MAX + 1)
    frame = encode_uvarint(ELEMENTS_MAX + 2) + empty_strings + b"\0"
    with pytest.raises(ProtocolError, match="too many elements"):
        decode(ListGroupsRequest, 4, frame)


def test_a_string_that_no_older_version_could_carry_is_refused() -> None:
    def frame(size_bytes: int) -> bytes:
        return b"\x02" + encode_uvarint(size_bytes + 1) + b"x" * size_bytes + b"\0"

    assert decode(ListGroupsRequest, 4, frame(0x7FFF)).states_filter == ["x" * 0x7FFF]
    with pytest.raises(ProtocolError, match="older version"):
        decode(ListGroupsRequest, 4, frame(0x8000))
