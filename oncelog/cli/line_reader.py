"""Lines of a descriptor as they come, with a sign when the input pauses.

A person who types a line, or a program that writes one now and then, wants it sent at once; a file should
go out in large batches. The pause tells them apart.
"""

from __future__ import annotations

import os
import select
from collections.abc import Iterator

_CHUNK_BYTES = 1024 * 1024
_PAUSE_MS = 20


def iter_lines(fd: int) -> Iterator[bytes | None]:
    """Lines without their newline; None when nothing more came for a moment."""
    tail = b""
    unsent = False
    # select() would refuse descriptors from 1024 on.
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    while True:
        if unsent and not poll.poll(_PAUSE_MS):
            unsent = False
            yield None
        chunk = os.read(fd, _CHUNK_BYTES)
        if not chunk:
            break
        lines = (tail + chunk).split(b"\n")
        tail = lines.pop()
        yield from lines
        unsent = True
    if tail:
        yield tail
