"""Format strings in the manner of kcat: `%t %p %o %k %v\\n`, compiled to one function per output."""

from __future__ import annotations

from collections.abc import Callable

from oncelog.cli.escapes import unescape
from oncelog.client.consumer import ConsumedRecord
from oncelog.protocol.records.record import Record

Token = Callable[[ConsumedRecord], bytes]


class FormatError(ValueError):
    """The format has a token that is not known."""


def _number(value: int) -> bytes:
    return b"%d" % value


def _size(data: bytes | None) -> bytes:
    return b"%d" % (-1 if data is None else len(data))


def _headers(record: Record) -> bytes:
    return b",".join(
        name.encode("utf-8", "surrogateescape") + b"=" + (b"NULL" if value is None else value)
        for name, value in record.headers
    )


_TOKENS: dict[str, Token] = {
    "p": lambda consumed: _number(consumed.partition),
    "o": lambda consumed: _number(consumed.record.offset),
    "k": lambda consumed: consumed.record.key or b"",
    "v": lambda consumed: consumed.record.value or b"",
    "s": lambda consumed: consumed.record.value or b"",
    "T": lambda consumed: _number(consumed.record.timestamp),
    "h": lambda consumed: _headers(consumed.record),
    "K": lambda consumed: _size(consumed.record.key),
    "S": lambda consumed: _size(consumed.record.value),
}


def compile_format(text: str, topic: str) -> Token:
    """Bytes of keys, values and headers are written as they are, whatever their encoding."""
    parts: list[Token] = []
    literal = ""

    def constant(data: bytes) -> Token:
        return lambda _: data

    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "%":
            literal += character
            continue
        name = text[position : position + 1]
        position += 1
        if name == "%":
            literal += "%"
        elif name == "t":
            literal += topic
        elif name in _TOKENS:
            parts += (constant(unescape(literal)), _TOKENS[name])
            literal = ""
        else:
            known = " ".join(f"%{each}" for each in ("t", *_TOKENS, "%"))
            raise FormatError(f"%{name} is no token of a format; there are {known}")
    parts.append(constant(unescape(literal)))
    return lambda consumed: b"".join([part(consumed) for part in parts])
