from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.primitives import (
    UNKNOWN_TAGS_MAX,
    ZERO_UUID,
    decode_uvarint,
    encode_uvarint,
    skip_tags,
    uuid_from_text,
    uuid_text,
)


@given(st.integers(0, 2**32 - 1))
def test_uvarint_round_trip(value: int) -> None:
    encoded = encode_uvarint(value)
    assert decode_uvarint(b"?" + encoded + b"?", 1) == (value, 1 + len(encoded))


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (127, "7f"), (128, "80 01"), (300, "ac 02"), (2**32 - 1, "ff ff ff ff 0f")],
)
def test_uvarint_bytes(value: int, encoded: str) -> None:
    assert encode_uvarint(value) == bytes.fromhex(encoded)


@pytest.mark.parametrize("encoded", ["ff ff ff ff ff 01", "ff ff ff ff 10", "80 80 80 80 80 80"])
def test_uvarint_above_32_bits_is_refused(encoded: str) -> None:
    with pytest.raises(ProtocolError):
        decode_uvarint(bytes.fromhex(encoded), 0)


@given(st.binary(min_size=16, max_size=16))
def test_uuid_text_round_trip(uuid: bytes) -> None:
    assert len(uuid_text(uuid)) == 22
    assert uuid_from_text(uuid_text(uuid)) == uuid


def test_uuid_text_as_kafka_prints_it() -> None:
    assert uuid_text(ZERO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"


@pytest.mark.parametrize("text", ["", "AAAA", "A" * 23, "é" * 22, "A" * 44])
def test_other_text_is_no_uuid(text: str) -> None:
    with pytest.raises(ValueError, match="22 characters"):
        uuid_from_text(text)


def test_skip_tags_up_to_the_cap() -> None:
    tags = b"".join(bytes([tag, 1, 0xFF]) for tag in range(UNKNOWN_TAGS_MAX))
    assert skip_tags(tags, 0, UNKNOWN_TAGS_MAX) == len(tags)
    with pytest.raises(ProtocolError, match="more tagged fields"):
        skip_tags(tags, 0, UNKNOWN_TAGS_MAX + 1)
