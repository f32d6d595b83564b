"""Compression of a record batch, with a ceiling on what decompression may give.

The codecs, with their libraries, are loaded with the first batch that needs them; see `codecs.py`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from oncelog.protocol.errors import ProtocolError

DECOMPRESSED_SIZE_BYTES_MAX: Final = 104_857_600
"""As large as the largest request: what fits through the socket plain may also come compressed."""


class Compression(IntEnum):
    """The codec's number in the attributes of a batch."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: Compression, data: bytes | bytearray | memoryview, level: int | None = None) -> bytes:
    """Compress in the framing of Kafka's Java client; `level` is on the codec's scale (snappy has none)."""
    if codec is Compression.NONE:
        return bytes(data)
    from oncelog.protocol.records import codecs

    return codecs.compress(codec, data, level)


def decompress(
    codec: Compression,
    data: bytes | bytearray | memoryview,
    size_bytes_max: int = DECOMPRESSED_SIZE_BYTES_MAX,
) -> memoryview:
    """Give the plain bytes, or ProtocolError for garbage, a cut-off stream and more than `size_bytes_max`."""
    view = memoryview(data)
    if codec is Compression.NONE:
        check_size(len(view), size_bytes_max)
        return view
    from oncelog.protocol.records import codecs

    return codecs.decompress(codec, view, size_bytes_max)


def check_size(size_bytes: int, size_bytes_max: int) -> None:
    if size_bytes > size_bytes_max:
        raise ProtocolError(f"the records decompress to more than {size_bytes_max} bytes")
