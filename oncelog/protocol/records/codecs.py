"""The four codecs of a record batch; `compression.py` is how they are called, and loads them when they are.

A producer compresses the records of a batch as one block; bits 0-2 of the batch's attributes name the codec:

    0 none · 1 gzip (one RFC 1952 member) · 2 snappy · 3 lz4 (frames of independent blocks, KIP-57) · 4 zstd

Snappy comes in two shapes. Java clients write xerial's stream: `\\x82SNAPPY\\0`, two int32 versions, then
blocks, each an int32 size and a raw snappy block. librdkafka writes a single raw block. The first bytes tell
them apart, because a raw block that began like xerial's magic would start with a copy of data that does not
exist yet.

Nothing that a peer claims about a size is believed before it is bounded: a buffer grows with the output that
was really produced, up to the caller's ceiling, and every complaint of a codec library becomes a
`ProtocolError`.
"""

from __future__ import annotations

import struct
import zlib
from functools import cache
from typing import TYPE_CHECKING, Final

import cramjam

from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.records.compression import Compression, check_size

if TYPE_CHECKING:
    from collections.abc import Callable

_ZLIB_GZIP_WRAPPER: Final = 31

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_SIZE_BYTES: Final = 32 * 1024
_INT32: Final = struct.Struct(">i")

_SNAPPY_RATIO_MAX: Final = 22
"""A snappy element of 3 bytes gives at most 64 bytes, so a block that promises more than this lies."""

_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_FLAG_INDEPENDENT: Final = 0x20
_LZ4_LEVEL: Final = 1
_ZSTD_LEVEL: Final = 3

_GUESS_SIZE_BYTES_MIN: Final = 64 * 1024
_GUESS_RATIO: Final = 8


def compress(codec: Compression, data: bytes | bytearray | memoryview, level: int | None) -> bytes:
    if codec is Compression.GZIP:
        deflate = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _ZLIB_GZIP_WRAPPER)
        return deflate.compress(data) + deflate.flush()
    if codec is Compression.SNAPPY:
        return _compress_xerial(memoryview(data))
    if codec is Compression.LZ4:
        # Kafka's Java reader refuses blocks that refer to each other, and liblz4 links them by default.
        frame = cramjam.lz4.Compressor(
            level=_LZ4_LEVEL if level is None else level, content_checksum=False, block_linked=False
        )
        frame.compress(bytes(data))
        return bytes(frame.finish())
    return bytes(cramjam.zstd.compress(data, level=_ZSTD_LEVEL if level is None else level))


def decompress(
    codec: Compression,
    view: memoryview,
    size_bytes_max: int,
) -> memoryview:
    if codec is Compression.GZIP:
        return _decompress_gzip(view, size_bytes_max)
    if codec is Compression.SNAPPY:
        return _decompress_snappy(view, size_bytes_max)
    if codec is Compression.LZ4:
        _check_lz4_frame(view)
        return _decompress_growing(codec, cramjam.lz4.decompress_into, view, size_bytes_max)
    return _decompress_growing(codec, cramjam.zstd.decompress_into, view, size_bytes_max)


def _decompress_gzip(view: memoryview, size_bytes_max: int) -> memoryview:
    inflate = zlib.decompressobj(_ZLIB_GZIP_WRAPPER)
    try:
        plain = inflate.decompress(view, size_bytes_max + 1)
    except zlib.error as error:
        raise ProtocolError(f"gzip: {error}") from None
    check_size(len(plain), size_bytes_max)
    if not inflate.eof:
        raise ProtocolError("gzip: the stream is cut off")
    if inflate.unused_data:
        # No client writes a second member, and following thousands of tiny ones would cost quadratic copying.
        raise ProtocolError("gzip: bytes follow the stream")
    return memoryview(plain)


def _compress_xerial(view: memoryview) -> bytes:
    parts = [_XERIAL_HEADER]
    for position in range(0, len(view), _XERIAL_BLOCK_SIZE_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[position : position + _XERIAL_BLOCK_SIZE_BYTES]))
        parts.append(_INT32.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def _decompress_snappy(view: memoryview, size_bytes_max: int) -> memoryview:
    blocks = _split_xerial(view) if bytes(view[:8]) == _XERIAL_MAGIC else [view]
    sizes = [_snappy_block_size(block) for block in blocks]
    size_bytes = sum(sizes)
    check_size(size_bytes, size_bytes_max)
    plain = memoryview(bytearray(size_bytes))
    position = 0
    for block, block_size in zip(blocks, sizes, strict=True):
        end = position + block_size
        _call(cramjam.snappy.decompress_raw_into, block, plain[position:end])
        position = end
    return plain


def _split_xerial(view: memoryview) -> list[memoryview]:
    blocks = []
    position = len(_XERIAL_HEADER)
    if len(view) < position:
        raise ProtocolError("snappy: the stream's header is cut off")
    while position < len(view):
        if len(view) - position < 4:
            raise ProtocolError("snappy: the size of a block is cut off")
        (block_size,) = _INT32.unpack_from(view, position)
        position += 4
        if not 0 < block_size <= len(view) - position:
            raise ProtocolError(f"snappy: a block claims {block_size} bytes, {len(view) - position} are left")
        blocks.append(view[position : position + block_size])
        position += block_size
    return blocks


def _snappy_block_size(block: memoryview) -> int:
    size_bytes = _call(cramjam.snappy.decompress_raw_len, block)
    if size_bytes > len(block) * _SNAPPY_RATIO_MAX:
        raise ProtocolError(f"snappy: a block of {len(block)} bytes claims {size_bytes} plain ones")
    return size_bytes


def _check_lz4_frame(view: memoryview) -> None:
    if bytes(view[:4]) != _LZ4_MAGIC or len(view) < 7:
        raise ProtocolError("lz4: not a frame")
    if not view[4] & _LZ4_FLAG_INDEPENDENT:
        # A Java consumer could never read such a batch (KIP-57), so it must not reach a log.
        raise ProtocolError("lz4: the frame's blocks depend on each other, which Kafka does not support")


def _decompress_growing(
    codec: Compression, decompress_into: Callable[..., int], view: memoryview, size_bytes_max: int
) -> memoryview:
    """Decompress into a fixed buffer, and again into a larger one for as long as that was the only complaint.

    The guess fits nearly every real batch at once; a bomb costs one pass over each buffer size below the
    ceiling.
    """
    size_bytes = min(size_bytes_max, max(_GUESS_SIZE_BYTES_MIN, len(view) * _GUESS_RATIO))
    while True:
        plain = memoryview(bytearray(size_bytes))
        try:
            return plain[: _call(decompress_into, view, plain)]
        except ProtocolError as error:
            if str(error) != _complaint_about_full_buffer(codec):
                raise ProtocolError(f"{codec.name.lower()}: {error}") from None
        check_size(size_bytes + 1, size_bytes_max)
        size_bytes = min(size_bytes_max, size_bytes * _GUESS_RATIO)


@cache
def _complaint_about_full_buffer(codec: Compression) -> str:
    """Learn from the library how it says that the output buffer is full, as all its errors have one type."""
    decompress_into = cramjam.lz4.decompress_into if codec is Compression.LZ4 else cramjam.zstd.decompress_into
    try:
        _call(decompress_into, memoryview(compress(codec, bytes(64), None)), memoryview(bytearray(1)))
    except ProtocolError as error:
        return str(error)
    raise AssertionError(f"{codec.name} wrote 64 bytes into a buffer of one")


def _call(function: Callable[..., int], *views: memoryview) -> int:
    """Call into the codec library; a panic of its Rust code is a BaseException and must not escape."""
    try:
        return function(*views)
    except Exception as error:
        raise ProtocolError(str(error)) from None
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise ProtocolError(f"the codec failed: {error}") from None
