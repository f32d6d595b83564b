"""Zig-zag varints, the integers inside records.

A signed integer n is written as the unsigned 2n, or -2n-1 when negative, in groups of 7 bits, lowest first,
with bit 7 set on every byte but the last. An int32 (varint) takes up to 5 bytes, an int64 (varlong) up to 10.
"""

from __future__ import annotations

from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.primitives import encode_uvarint


def encode_varint(value: int) -> bytes:
    """Write an int32 or an int64: the bytes are the same."""
    return encode_uvarint(value << 1 if value >= 0 else (-value << 1) - 1)


def read_raw(data: bytes, position: int, bits: int) -> tuple[int, int]:
    """Read the unsigned form, before zig-zag is undone, and return the position behind it too.

    IndexError if the data ends inside it.
    """
    raw = 0
    shift = 0
    while True:
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        shift += 7
        if raw >> bits or (byte > 0x7F and shift > bits):
            raise ProtocolError(f"a varint does not fit in {bits} bits")
        if byte < 0x80:
            return raw, position
