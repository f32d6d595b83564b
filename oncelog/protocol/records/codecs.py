"""The four codecs of record batches. `compression.py` calls them, and loads them when it first does.

A producer compresses the records of a batch as one block; bits 0-2 of the batch's attributes name the codec:

    0 none · 1 gzip (one RFC 1952 member) · 2 snappy · 3 lz4 (a frame of independent blocks, KIP-57) · 4 zstd (a frame)

Snappy comes in two shapes. Java clients write xerial's stream: `\\x82SNAPPY\\0`, two int32 versions, then
blocks, each an int32 size and a raw snappy block. librdkafka writes a single raw block. The first bytes tell
them apart, because a raw block that began like xerial's magic would start with a copy of data that does not
exist yet.

All of them stream: plain bytes are processed in windows, so a batch that decompresses to a hundred megabytes never
takes that much memory, and another thread can run between two windows. The libraries release the GIL. Every size that
a peer claims is checked against a limit first, and every error of a codec library becomes a `ProtocolError`.
"""

from __future__ import annotations

import struct
import sys
import zlib
from typing import TYPE_CHECKING, Any, Final, Protocol

import cramjam
import lz4.frame

from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.records.compression import Compression

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from oncelog.protocol.primitives import Buffer

INPUT_BYTES: Final = 64 * 1024
"""How much input a decoder gets at once. It copies what it does not consume."""
FIRST_WINDOW_BYTES: Final = 64 * 1024
WINDOW_BYTES: Final = 256 * 1024
"""How much a decoder may return at once. Most batches need no second window."""
ZSTD_HISTORY_BYTES_MAX: Final = 32 * 1024 * 1024
"""The most output that a zstd decoder keeps. No frame needs more up to level 20."""

_ZLIB_GZIP_WRAPPER: Final = 31

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_SIZE_BYTES: Final = 32 * 1024
_INT32: Final = struct.Struct(">i")

_SNAPPY_RATIO_MAX: Final = 22
"""A snappy element of 3 bytes expands to at most 64 bytes, so a block cannot expand more than this."""

_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_FLAG_INDEPENDENT: Final = 0x20
_LZ4_LEVEL: Final = 1

_ZSTD_LEVEL: Final = 3
_ZSTD_FLAG_SINGLE_SEGMENT: Final = 0x20
_ZSTD_ENCODER_WINDOW_LOG_MAX: Final = 21
"""A window of 2 MB, which level 3 has. The highest level takes 36 MB of memory with it, and 800 MB with its own."""


class Encoder(Protocol):
    """Compresses a stream piece by piece. The pieces that it returns make up the compressed stream."""

    def compress(self, data: Buffer, /) -> bytes: ...

    def flush(self) -> bytes:
        """Ends the stream."""


class _Decoder(Protocol):
    """Decompresses one stream piece by piece, as the decoders of the standard library do."""

    @property
    def eof(self) -> bool: ...

    @property
    def needs_input(self) -> bool:
        """False if more output is there without more input."""

    @property
    def unused_data(self) -> bytes | None: ...

    def decompress(self, data: Buffer, max_length: int) -> bytes: ...


# -- compression ---------------------------------------------------------------------------------------------


def encoder(codec: Compression, level: int | None, plain_size_bytes: int) -> Encoder:
    """An encoder for a stream of that many plain bytes, in the framing of Kafka's Java client."""
    if codec is Compression.GZIP:
        return zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _ZLIB_GZIP_WRAPPER)
    if codec is Compression.SNAPPY:
        return _XerialEncoder()
    if codec is Compression.LZ4:
        return _Lz4Encoder(_LZ4_LEVEL if level is None else level)
    return _zstd_encoder(_ZSTD_LEVEL if level is None else level, plain_size_bytes)


def _zstd_encoder(level: int, plain_size_bytes: int) -> Encoder:
    options: dict[int, int] = {zstd.CompressionParameter.compression_level: level}
    if plain_size_bytes > 1 << _ZSTD_ENCODER_WINDOW_LOG_MAX:
        options[zstd.CompressionParameter.window_log] = _ZSTD_ENCODER_WINDOW_LOG_MAX
    compressor = zstd.ZstdCompressor(options=options)
    compressor.set_pledged_input_size(plain_size_bytes)
    return compressor


class _Lz4Encoder:
    def __init__(self, level: int) -> None:
        # Kafka's Java reader refuses blocks that refer to each other, and liblz4 links them by default.
        self._frame = lz4.frame.LZ4FrameCompressor(block_linked=False, compression_level=level)
        self._header: bytes = self._frame.begin()

    def compress(self, data: Buffer) -> bytes:
        header, self._header = self._header, b""
        return header + bytes(self._frame.compress(data))

    def flush(self) -> bytes:
        return self._header + bytes(self._frame.flush())


class _XerialEncoder:
    def __init__(self) -> None:
        self._header = _XERIAL_HEADER
        self._rest = b""

    def compress(self, data: Buffer) -> bytes:
        plain = memoryview(self._rest + data if self._rest else data)
        whole = len(plain) - len(plain) % _XERIAL_BLOCK_SIZE_BYTES
        self._rest = bytes(plain[whole:])
        return self._write(plain[:whole])

    def flush(self) -> bytes:
        return self._write(memoryview(self._rest))

    def _write(self, plain: memoryview) -> bytes:
        parts, self._header = [self._header], b""
        for position in range(0, len(plain), _XERIAL_BLOCK_SIZE_BYTES):
            block = bytes(cramjam.snappy.compress_raw(plain[position : position + _XERIAL_BLOCK_SIZE_BYTES]))
            parts += (_INT32.pack(len(block)), block)
        return b"".join(parts)


# -- decompression -------------------------------------------------------------------------------------------


def decompressed_windows(codec: Compression, view: memoryview, allow: Callable[[int], None]) -> Iterator[Buffer]:
    """Yield the plain bytes in windows, which may be empty; call `allow` with the total so far."""
    if codec is Compression.SNAPPY:
        return _snappy_windows(view, allow)
    if codec is Compression.GZIP:
        return _decoded_windows("gzip", _GzipDecoder(), view, allow)
    if codec is Compression.LZ4:
        _check_lz4_frame(view)
        return _decoded_windows("lz4", lz4.frame.LZ4FrameDecompressor(), view, allow)
    return _decoded_windows("zstd", zstd.ZstdDecompressor(), view, _bound_zstd_history(view, allow))


def _decoded_windows(name: str, decoder: _Decoder, view: memoryview, allow: Callable[[int], None]) -> Iterator[Buffer]:
    position = size_bytes = 0
    window_bytes = FIRST_WINDOW_BYTES
    while not decoder.eof:
        data: Buffer = b""
        if decoder.needs_input:
            data = view[position : position + INPUT_BYTES]
            position += len(data)
            if not data:
                raise ProtocolError(f"{name}: the stream is cut off")
        window = _call(name, decoder.decompress, data, window_bytes)
        window_bytes = WINDOW_BYTES
        size_bytes += len(window)
        allow(size_bytes)
        yield window
    if decoder.unused_data or position < len(view):
        # No client writes a second stream, and following thousands of tiny ones would be slow.
        raise ProtocolError(f"{name}: bytes follow the stream")


class _GzipDecoder:
    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(_ZLIB_GZIP_WRAPPER)

    @property
    def eof(self) -> bool:
        return self._inflate.eof

    @property
    def needs_input(self) -> bool:
        return not self._inflate.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._inflate.unused_data

    def decompress(self, data: Buffer, max_length: int) -> bytes:
        return self._inflate.decompress(self._inflate.unconsumed_tail or data, max_length)


def _check_lz4_frame(view: memoryview) -> None:
    if bytes(view[:4]) != _LZ4_MAGIC or len(view) < 7:
        raise ProtocolError("lz4: not a frame")
    if not view[4] & _LZ4_FLAG_INDEPENDENT:
        # A Java consumer could never read such a batch (KIP-57), so it must not reach a log.
        raise ProtocolError("lz4: the frame's blocks depend on each other, which Kafka does not support")


def _bound_zstd_history(view: memoryview, allow: Callable[[int], None]) -> Callable[[int], None]:
    """A decoder keeps as much of its output as the frame's window is large, which may be 128 MB. High levels often
    have such windows, but usually with little output."""
    if len(view) < 6 or view[4] & _ZSTD_FLAG_SINGLE_SEGMENT:
        reach = ZSTD_HISTORY_BYTES_MAX + 1
    else:
        exponent, mantissa = view[5] >> 3, view[5] & 7
        reach = (8 + mantissa) << (7 + exponent)
    if reach <= ZSTD_HISTORY_BYTES_MAX:
        return allow

    def allow_history(size_bytes: int) -> None:
        allow(size_bytes)
        if size_bytes > ZSTD_HISTORY_BYTES_MAX:
            raise ProtocolError(f"zstd: the frame has a window of more than {ZSTD_HISTORY_BYTES_MAX} bytes")

    return allow_history


def _snappy_windows(view: memoryview, allow: Callable[[int], None]) -> Iterator[Buffer]:
    size_bytes = 0
    for block in _iter_xerial(view) if bytes(view[:8]) == _XERIAL_MAGIC else (view,):
        block_size_bytes = _snappy_block_size(block)
        size_bytes += block_size_bytes
        allow(size_bytes)
        window = bytearray(block_size_bytes)
        _call("snappy", cramjam.snappy.decompress_raw_into, block, window)
        yield window


def _iter_xerial(view: memoryview) -> Iterator[memoryview]:
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
        yield view[position : position + block_size]
        position += block_size


def _snappy_block_size(block: memoryview) -> int:
    size_bytes: int = _call("snappy", cramjam.snappy.decompress_raw_len, block)
    if size_bytes > len(block) * _SNAPPY_RATIO_MAX:
        raise ProtocolError(f"snappy: a block of {len(block)} bytes claims {size_bytes} plain ones")
    return size_bytes


def _call(name: str, function: Callable[..., Any], *arguments: object) -> Any:
    """Call into a codec library; a panic of Rust code is a BaseException and must not escape."""
    try:
        return function(*arguments)
    except MemoryError:
        raise
    except Exception as error:
        raise ProtocolError(f"{name}: {error}") from None
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise ProtocolError(f"{name}: the codec failed: {error}") from None
