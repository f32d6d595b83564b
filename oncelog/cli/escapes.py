"""Backslash escapes in what people type: `\\n`, `\\t`, `\\xNN`."""

from __future__ import annotations

import re

_ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{2}|.)", re.DOTALL)
_NAMED = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"0": b"\0", b"\\": b"\\"}


def unescape(text: str) -> bytes:
    """The bytes that are meant; an escape that is not known stands for itself."""

    def replace(match: re.Match[bytes]) -> bytes:
        escape = match[1]
        if len(escape) == 3:
            return bytes([int(escape[1:], 16)])
        return _NAMED.get(escape, match[0])

    return _ESCAPE.sub(replace, text.encode("utf-8", "surrogateescape"))
