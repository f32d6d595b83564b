"""From a declaration and a version to straight-line encode and decode functions, made on first use.

Neighbouring fixed-width fields become one `struct` call, loops over nested structs are written inline, and a
field that the version does not have costs one assignment of its default. The generated source is registered
with linecache, so a traceback shows it and a debugger steps through it; `source()` returns it for reading.

Where the C extension was built, it goes ahead: `_codec` does messages of the usual shape by a plan of the same
declaration, and code is only generated for the others (see `plan`).

Promise of every decoder: a good value or ProtocolError, whatever the bytes. Before an array is allocated, its
count is checked against the bytes that are left and against a budget of elements for the whole message, so a
short frame cannot claim a long list.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Literal, TypeVar, cast

from oncelog.protocol.codegen import Writer
from oncelog.protocol.codegen_decode import DecodeWriter
from oncelog.protocol.codegen_encode import EncodeWriter
from oncelog.protocol.errors import ProtocolError, TooManyElementsError
from oncelog.protocol.plan import Plan, make_plan
from oncelog.protocol.primitives import Buffer, Part
from oncelog.protocol.schema import Message

M = TypeVar("M", bound=Message)
Parts = list[Part]
Decoder = Callable[[memoryview, int, int], tuple[Any, int]]
Encoder = Callable[[Any, Callable[[Part], None]], None]

ELEMENTS_MAX = 1_000_000
"""What the arrays of a message may have all together, unless its reader says otherwise."""

_plans: dict[tuple[type[Message], int], Plan] = {}
_decoders: dict[tuple[type[Message], int], Decoder] = {}
_encoders: dict[tuple[type[Message], int], Encoder] = {}


def decode(message: type[M], version: int, buf: Buffer, position: int = 0, elements_max: int = ELEMENTS_MAX) -> M:
    """The message in `buf` from `position`; bytes behind it are ignored, as Kafka ignores them.

    TooManyElementsError if its arrays have more than `elements_max` elements all together.
    """
    plan = _plans.get((message, version)) or _make_plan(message, version)
    found = plan.decode(buf, position, elements_max)
    value: M
    value, _ = found or _decode_at_length(message, version, buf, position, elements_max, found)
    return value


def decode_from(message: type[M], version: int, buf: Buffer, position: int = 0) -> tuple[M, int]:
    """Like `decode`, with the position behind the message."""
    plan = _plans.get((message, version)) or _make_plan(message, version)
    found = plan.decode(buf, position, ELEMENTS_MAX)
    return found or _decode_at_length(message, version, buf, position, ELEMENTS_MAX, found)


def encode(value: Message, version: int) -> bytes:
    parts: Parts = []
    encode_into(value, version, parts)
    # Stored bytes are only ever sent.
    return b"".join(cast(list[Buffer], parts))


def encode_into(value: Message, version: int, parts: Parts) -> None:
    """Append the encoding to `parts`; a `Records` value is appended as it is, without a copy."""
    message = type(value)
    plan = _plans.get((message, version)) or _make_plan(message, version)
    if plan.encode(value, parts):
        return
    encoder = _encoders.get((message, version)) or _compile_encoder(message, version)
    encoder(value, parts.append)


def source(message: type[Message], version: int, direction: str) -> str:
    """The generated source of `decode` or `encode`, for people."""
    writer: type[Writer] = DecodeWriter if direction == "decode" else EncodeWriter
    return writer(message, version).source()


def _decode_at_length(
    message: type[M],
    version: int,
    buf: Buffer,
    position: int,
    elements_max: int,
    found: Literal[False] | None,
) -> tuple[M, int]:
    if found is False:
        raise TooManyElementsError
    decoder = _decoders.get((message, version)) or _compile_decoder(message, version)
    try:
        return decoder(memoryview(buf), position, elements_max)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ProtocolError(f"{message.__name__} v{version} is malformed: {error}") from None


def _make_plan(message: type[Message], version: int) -> Plan:
    return _plans.setdefault((message, version), make_plan(message, version))


def _compile_decoder(message: type[Message], version: int) -> Decoder:
    function: Decoder = DecodeWriter(message, version).compile()
    return _decoders.setdefault((message, version), function)


def _compile_encoder(message: type[Message], version: int) -> Encoder:
    function: Encoder = EncodeWriter(message, version).compile()
    return _encoders.setdefault((message, version), function)
