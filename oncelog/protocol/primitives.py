"""The scalar types of the wire format, as markers for declarations, and the few functions that generated
codecs call for values that are not of the common, short form.

    Bool Int8 Int16 UInt16 Int32 UInt32 Int64 Float64   fixed width, big-endian
    Uuid                                                16 raw bytes; `ZERO_UUID` stands for "none"
    String  Bytes  Records                              length-prefixed; the prefix is int16 for String and
                                                        int32 for the others, or an unsigned varint of
                                                        length+1 in flexible versions (0 means null)

A `Records` value decodes to a memoryview of the frame, never to a copy; all other values own their memory. A field of
`StoredRecords` may also be encoded from `StoredBytes`, whose content is not read until it is sent.
"""

from __future__ import annotations

import base64
from typing import Annotated

from oncelog.named_tuple import NamedTuple
from oncelog.protocol.errors import ProtocolError

Buffer = bytes | bytearray | memoryview


class StoredBytes:
    """Bytes that stay in storage until they are sent. A codec needs only their length."""

    __slots__ = ()

    def __len__(self) -> int:
        raise NotImplementedError

    def read(self) -> bytes:
        """Return all of them."""
        raise NotImplementedError

    def send(self, socket_fd: int, start: int, size_bytes_max: int) -> int:
        """Send some of them, from `start`, to a non-blocking socket; return how many were sent."""
        raise NotImplementedError


Part = Buffer | StoredBytes
"""A piece of an encoded message."""

ZERO_UUID = bytes(16)

UNKNOWN_TAGS_MAX = 64

STRING_SIZE_BYTES_MAX = 0x7FFF
"""Kafka refuses longer strings in all versions, so that whatever came in one version can be answered in another."""


class Fixed(NamedTuple):
    """A fixed-width type: its name in Kafka's schemas and its `struct` code."""

    name: str
    code: str
    size_bytes: int
    zero: int | float | bool | bytes


class Sized(NamedTuple):
    """A length-prefixed type."""

    name: str
    zero: str | bytes


Bool = Annotated[bool, Fixed("bool", "?", 1, False)]
Int8 = Annotated[int, Fixed("int8", "b", 1, 0)]
Int16 = Annotated[int, Fixed("int16", "h", 2, 0)]
UInt16 = Annotated[int, Fixed("uint16", "H", 2, 0)]
Int32 = Annotated[int, Fixed("int32", "i", 4, 0)]
UInt32 = Annotated[int, Fixed("uint32", "I", 4, 0)]
Int64 = Annotated[int, Fixed("int64", "q", 8, 0)]
Float64 = Annotated[float, Fixed("float64", "d", 8, 0.0)]
Uuid = Annotated[bytes, Fixed("uuid", "16s", 16, ZERO_UUID)]
String = Annotated[str, Sized("string", "")]
Bytes = Annotated[bytes, Sized("bytes", b"")]
Records = Annotated[Buffer, Sized("records", b"")]
StoredRecords = Annotated[Part, Sized("records", b"")]


def uuid_text(uuid: bytes) -> str:
    """Format a uuid as Kafka does: 22 characters of URL-safe base64."""
    return base64.urlsafe_b64encode(uuid).rstrip(b"=").decode()


def uuid_from_text(text: str) -> bytes:
    """The inverse of `uuid_text`."""
    try:
        uuid = base64.urlsafe_b64decode(text + "==")
    except ValueError:
        uuid = b""
    if len(uuid) != 16:
        raise ValueError(f"{text!r} is not a base64 uuid of 22 characters")
    return uuid


def encode_uvarint(value: int) -> bytes:
    if value < 0x80:
        return _ONE_BYTE[value]
    out = bytearray()
    while value >= 0x80:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_ONE_BYTE = tuple(bytes((value,)) for value in range(0x80))


def decode_uvarint(buf: Buffer, position: int) -> tuple[int, int]:
    """Return an unsigned varint of at most 32 bits, and the position after it."""
    value = shift = 0
    while True:
        byte = buf[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 28:
            raise ProtocolError("a varint is longer than 5 bytes")
    if value > 0xFFFFFFFF:
        raise ProtocolError("a varint does not fit into 32 bits")
    return value, position


def skip_tags(buf: Buffer, position: int, count: int) -> int:
    """Return the position after `count` tagged fields, which are ignored as KIP-482 demands."""
    if count > UNKNOWN_TAGS_MAX:
        raise ProtocolError("more tagged fields than any client sends")
    last = -1
    for _ in range(count):
        tag, position = decode_uvarint(buf, position)
        if tag <= last:
            raise ProtocolError("tagged fields are repeated or out of order")
        last = tag
        size_bytes, position = decode_uvarint(buf, position)
        position += size_bytes
        if position > len(buf):
            raise ProtocolError("a tagged field is longer than the bytes left")
    return position
