"""Request and response headers, written by hand because every request pays for them.

    request v1    api_key int16 · api_version int16 · correlation_id int32 · client_id nullable string (int16)
    request v2    the same, then tagged fields; the client id keeps its old length prefix (KIP-482)
    response v0   correlation_id int32
    response v1   the same, then tagged fields

Flexible versions of an API use the later header, except that a response to ApiVersions is always v0, because
its client does not know yet what the broker supports (KIP-511).
"""

from __future__ import annotations

import struct

from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.primitives import Buffer, decode_uvarint, skip_tags

_START = struct.Struct(">hhi")
_LENGTH = struct.Struct(">h")
_CORRELATION = struct.Struct(">i")


def decode_request_start(frame: Buffer) -> tuple[int, int, int]:
    """Return the key, version and correlation id, which have the same place in every request."""
    try:
        return _START.unpack_from(frame)
    except struct.error:
        raise ProtocolError("a frame is too short for a request header") from None


def decode_request_rest(frame: memoryview, flexible: bool) -> tuple[str | None, int]:
    """Return the client id and the position of the body."""
    try:
        (size_bytes,) = _LENGTH.unpack_from(frame, 8)
        position = 10
        client_id = None
        if size_bytes >= 0:
            position += size_bytes
            if position > len(frame):
                raise ProtocolError("the client id is longer than the request")
            client_id = str(frame[10:position], "utf-8")
        elif size_bytes != -1:
            raise ProtocolError("the client id has a negative length")
        if flexible:
            if frame[position] == 0:
                return client_id, position + 1
            count, position = decode_uvarint(frame, position)
            position = skip_tags(frame, position, count)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ProtocolError(f"a request header is malformed: {error}") from None
    return client_id, position


def encode_request_header(
    api_key: int, version: int, correlation_id: int, client_id: str | None, flexible: bool
) -> bytes:
    head = _START.pack(api_key, version, correlation_id)
    if client_id is None:
        name = _LENGTH.pack(-1)
    else:
        encoded = client_id.encode()
        name = _LENGTH.pack(len(encoded)) + encoded
    return head + name + (b"\0" if flexible else b"")


def encode_response_header(api_key: int, correlation_id: int, flexible: bool) -> bytes:
    head = _CORRELATION.pack(correlation_id)
    return head + b"\0" if flexible and api_key != ApiKey.API_VERSIONS else head


def decode_response_header(frame: Buffer, api_key: int, flexible: bool) -> tuple[int, int]:
    """Return the correlation id and the position of the body."""
    try:
        (correlation_id,) = _CORRELATION.unpack_from(frame)
        position = 4
        if flexible and api_key != ApiKey.API_VERSIONS:
            count, position = decode_uvarint(frame, position)
            if count:
                position = skip_tags(frame, position, count)
    except (struct.error, IndexError) as error:
        raise ProtocolError(f"a response header is malformed: {error}") from None
    return correlation_id, position
