"""Compression of record batches, with a limit on the size after decompression.

The codecs and their libraries are loaded with the first batch that needs them; see `codecs.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from oncelog.protocol.errors import ProtocolError

if TYPE_CHECKING:
    from oncelog.protocol.primitives import Buffer

DECOMPRESSED_SIZE_BYTES_MAX: Final = 104_857_600
"""The size of the largest request: what may be sent plain may also be sent compressed."""

Allow = Callable[[int], None]
"""Called with the number of plain bytes of a batch so far; raises if that is too many. A decoder that knows the size of
the next piece calls it before it decompresses that piece."""


class Compression(IntEnum):
    """The codec's number in the attributes of a batch."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: Compression, data: Buffer, level: int | None = None) -> bytes:
    """Compress in the framing of Kafka's Java client; `level` is on the codec's scale (snappy has none)."""
    return b"".join(compressed(codec, (data,), len(data), level))


def compressed(
    codec: Compression, windows: Iterable[Buffer], size_bytes: int, level: int | None = None
) -> Iterator[Buffer]:
    """Yield the compressed stream of plain windows that have `size_bytes` in total."""
    if codec is Compression.NONE:
        yield from windows
        return
    from oncelog.protocol.records import codecs

    encoder = codecs.encoder(codec, level, size_bytes)
    for window in windows:
        yield encoder.compress(window)
    yield encoder.flush()


def decompress(codec: Compression, data: Buffer, size_bytes_max: int = DECOMPRESSED_SIZE_BYTES_MAX) -> Buffer:
    """Return the plain bytes; ProtocolError for garbage, a cut-off stream or more than `size_bytes_max`."""
    windows = list(decompressed(codec, data, lambda size_bytes: check_size(size_bytes, size_bytes_max)))
    return windows[0] if len(windows) == 1 else b"".join(windows)


def decompressed(codec: Compression, data: Buffer, allow: Allow) -> Iterator[Buffer]:
    """Yield the plain bytes in windows, some of which may be empty."""
    view = memoryview(data)
    if codec is Compression.NONE:
        allow(len(view))
        return iter((view,))
    from oncelog.protocol.records import codecs

    return codecs.decompressed_windows(codec, view, allow)


def check_size(size_bytes: int, size_bytes_max: int = DECOMPRESSED_SIZE_BYTES_MAX) -> None:
    if size_bytes > size_bytes_max:
        raise ProtocolError(f"the records decompress to more than {size_bytes_max} bytes")
