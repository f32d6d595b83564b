from __future__ import annotations

import itertools
import random
import struct
import tracemalloc
import zlib
from typing import TYPE_CHECKING

import cramjam
import pytest
from aiokafka import codec as aiokafka_codec
from hypothesis import given
from hypothesis import strategies as st

from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.primitives import Buffer
from oncelog.protocol.records import codecs
from oncelog.protocol.records.compression import (
    DECOMPRESSED_SIZE_BYTES_MAX,
    Compression,
    compress,
    compressed,
    decompress,
    decompressed,
)

if TYPE_CHECKING:
    from collections.abc import Callable

CODECS = [codec for codec in Compression if codec is not Compression.NONE]
MIB = 1024 * 1024
AIOKAFKA: dict[Compression, tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]] = {
    Compression.GZIP: (aiokafka_codec.gzip_encode, aiokafka_codec.gzip_decode),
    Compression.SNAPPY: (aiokafka_codec.snappy_encode, aiokafka_codec.snappy_decode),
    Compression.LZ4: (aiokafka_codec.lz4_encode, aiokafka_codec.lz4_decode),
    Compression.ZSTD: (aiokafka_codec.zstd_encode, aiokafka_codec.zstd_decode),
}


def mixed(size: int) -> bytes:
    """Data with runs and noise, so that every codec has both copies and literals."""
    source = random.Random(size)
    parts = [source.randbytes(97) + b"abc" * source.randrange(60) for _ in range(size // 150 + 1)]
    return b"".join(parts)[:size]


def gzip_bomb(size_mib: int) -> bytes:
    """Repeat a deflate block of 1 MiB zeros; about 1 KiB each, so no time is spent on compressing."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = deflate.compress(bytes(MIB)) + deflate.flush(zlib.Z_FULL_FLUSH)
    header = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
    return header + block * size_mib + b"\x03\x00" + bytes(8)


def zstd_frame(window_log: int, blocks: bytes) -> bytes:
    return b"\x28\xb5\x2f\xfd\x00" + bytes([(window_log - 10) << 3]) + blocks


def zstd_run(size: int, *, last: bool) -> bytes:
    return struct.pack("<I", size << 3 | 2 | last)[:3] + b"A"


def lz4_frame(flags: int, blocks: bytes, content_size: bytes = b"") -> bytes:
    descriptor = bytes([flags, 0x40]) + content_size
    return b"\x04\x22\x4d\x18" + descriptor + bytes([xxh32(descriptor) >> 8 & 0xFF]) + blocks + bytes(4)


def xxh32(data: bytes) -> int:
    """xxHash32 with seed 0 of at most 15 bytes, which lz4 puts behind its frame descriptor."""
    mask = 0xFFFFFFFF
    value = 374761393 + len(data)
    while len(data) >= 4:
        value = (value + int.from_bytes(data[:4], "little") * 3266489917) & mask
        value = (value << 17 | value >> 15) * 668265263 & mask
        data = data[4:]
    for byte in data:
        value = (value + byte * 374761393) & mask
        value = ((value << 11 | value >> 21) & mask) * 2654435761 & mask
    value = (value ^ value >> 15) * 2246822519 & mask
    value = (value ^ value >> 13) * 3266489917 & mask
    return value ^ value >> 16


def lz4_bomb(size_mib: int) -> bytes:
    block = bytes(cramjam.lz4.compress_block(bytes(64 * 1024), store_size=False))
    return lz4_frame(0x60, (struct.pack("<I", len(block)) + block) * (size_mib * 16))


@pytest.mark.parametrize("codec", Compression)
@given(data=st.binary(max_size=2000))
def test_round_trip(codec: Compression, data: bytes) -> None:
    assert decompress(codec, compress(codec, data)) == data


@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize("size", [0, 1, 32 * 1024, 64 * 1024 + 1, 3 * MIB])
def test_round_trip_of_sizes_around_block_limits(codec: Compression, size: int) -> None:
    data = mixed(size)
    assert decompress(codec, memoryview(compress(codec, bytearray(data)))) == data


@pytest.mark.parametrize("codec", CODECS)
def test_ratio_above_the_first_guess(codec: Compression) -> None:
    data = bytes(5 * MIB)
    assert decompress(codec, compress(codec, data)) == data


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [0, 5, 200_000])
def test_aiokafka_reads_ours_and_we_read_theirs(codec: Compression, size: int) -> None:
    encode, decode = AIOKAFKA[codec]
    data = mixed(size)
    # aiokafka takes xerial's header alone, without a block behind it, for a raw block.
    if data or codec is not Compression.SNAPPY:
        assert decode(compress(codec, data)) == data
    assert decompress(codec, encode(data)) == data


@pytest.mark.parametrize(("codec", "level"), [(Compression.GZIP, 1), (Compression.LZ4, 9), (Compression.ZSTD, 19)])
def test_levels(codec: Compression, level: int) -> None:
    assert decompress(codec, compress(codec, mixed(10_000), level)) == mixed(10_000)


def test_snappy_without_framing_as_librdkafka_writes_it() -> None:
    data = mixed(100_000)
    assert decompress(Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(data))) == data


def test_framings_are_those_of_java() -> None:
    assert compress(Compression.SNAPPY, b"x")[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    lz4 = compress(Compression.LZ4, b"x")
    assert lz4[:4] == b"\x04\x22\x4d\x18"
    assert lz4[4] & 0x20, "blocks must be independent (KIP-57)"
    assert compress(Compression.GZIP, b"x")[:3] == b"\x1f\x8b\x08"


def test_lz4_with_dependent_blocks_is_refused() -> None:
    with pytest.raises(ProtocolError, match="depend"):
        decompress(Compression.LZ4, bytes(cramjam.lz4.compress(mixed(200_000))))


@pytest.mark.parametrize("codec", Compression)
def test_ceiling_is_exact(codec: Compression) -> None:
    data = mixed(70_000)
    packed = compress(codec, data)
    assert decompress(codec, packed, len(data)) == data
    with pytest.raises(ProtocolError, match="more than"):
        decompress(codec, packed, len(data) - 1)


BOMBS = {
    "gzip 1 MB to 1 GB": (Compression.GZIP, lambda: gzip_bomb(1024)),
    "zstd 300 KB to 10 GB": (
        Compression.ZSTD,
        lambda: zstd_frame(17, zstd_run(128 * 1024, last=False) * 80_000 + zstd_run(1, last=True)),
    ),
    "lz4 1 MB to 250 MB": (Compression.LZ4, lambda: lz4_bomb(250)),
    "snappy 1 MB to 20 MB, honest": (
        Compression.SNAPPY,
        lambda: bytes(cramjam.snappy.compress_raw(bytes(20 * MIB))),
    ),
    "snappy raw that claims 2 GB": (Compression.SNAPPY, lambda: b"\xff\xff\xff\xff\x07" + b"\x00a" * 100),
    "snappy raw that claims 4 GB": (Compression.SNAPPY, lambda: b"\xff\xff\xff\xff\x0f" + b"\x00a" * 100),
    "snappy chunk of 0x7fffffff": (
        Compression.SNAPPY,
        lambda: compress(Compression.SNAPPY, b"")[:16] + b"\x7f\xff\xff\xff" + bytes(100),
    ),
    "snappy chunk of -1": (
        Compression.SNAPPY,
        lambda: compress(Compression.SNAPPY, b"")[:16] + b"\xff\xff\xff\xff" + bytes(100),
    ),
    "snappy chunk that claims 2 GB": (
        Compression.SNAPPY,
        lambda: compress(Compression.SNAPPY, b"")[:16] + b"\x00\x00\x00\x07" + b"\xff\xff\xff\xff\x07\x00a",
    ),
    "lz4 with false content size": (
        Compression.LZ4,
        lambda: lz4_frame(0x68, b"\x01\x00\x00\x80a", struct.pack("<Q", 1 << 62)),
    ),
    "zstd window of 2 GB": (Compression.ZSTD, lambda: zstd_frame(31, zstd_run(1, last=True))),
    "zstd content size of 2^60": (
        Compression.ZSTD,
        lambda: b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 1 << 60) + zstd_run(100, last=True),
    ),
}


@pytest.mark.parametrize("name", BOMBS)
def test_bomb_stops_at_the_ceiling(name: str) -> None:
    codec, make = BOMBS[name]
    bomb = make()
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError):
            decompress(codec, bomb, 8 * MIB)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 24 * MIB


@pytest.mark.parametrize("name", ["gzip 1 MB to 1 GB", "zstd 300 KB to 10 GB", "lz4 1 MB to 250 MB"])
def test_bomb_stops_at_the_default_ceiling(name: str) -> None:
    codec, make = BOMBS[name]
    with pytest.raises(ProtocolError, match=f"more than {DECOMPRESSED_SIZE_BYTES_MAX}"):
        decompress(codec, make())


@pytest.mark.parametrize("codec", CODECS)
def test_cut_off_streams_are_refused(codec: Compression) -> None:
    packed = compress(codec, mixed(1000))
    for end in range(len(packed)):
        if codec is Compression.SNAPPY and end == 16:
            continue  # a xerial header without blocks is an empty stream
        with pytest.raises(ProtocolError):
            decompress(codec, packed[:end])


@pytest.mark.parametrize("codec", CODECS)
def test_bytes_after_the_stream_are_refused(codec: Compression) -> None:
    with pytest.raises(ProtocolError):
        decompress(codec, compress(codec, mixed(1000)) + b"\x99rest")


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_a_second_stream_is_refused(codec: Compression) -> None:
    """No client writes one, and some consumers read the first only."""
    for size in (1000, 300_000):
        with pytest.raises(ProtocolError, match="bytes follow"):
            decompress(codec, compress(codec, mixed(size)) * 2)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 3 * MIB])
def test_windows_are_small_and_make_up_the_whole(codec: Compression, size: int) -> None:
    data = mixed(size)
    sizes: list[int] = []
    windows = [bytes(window) for window in decompressed(codec, compress(codec, data), sizes.append)]
    assert b"".join(windows) == data
    assert all(len(window) <= codecs.WINDOW_BYTES for window in windows)
    assert len(windows[0]) <= codecs.FIRST_WINDOW_BYTES if windows else not data
    assert sizes == list(itertools.accumulate(map(len, windows)))


@pytest.mark.parametrize("codec", CODECS)
def test_plain_bytes_that_come_in_windows_are_compressed_as_one_stream(codec: Compression) -> None:
    data = mixed(400_000)
    for step in (1000, 32_768, 100_000):
        windows = (data[at : at + step] for at in range(0, len(data), step))
        assert decompress(codec, b"".join(compressed(codec, windows, len(data)))) == data


def test_zstd_with_a_window_of_128_mb_is_taken_as_long_as_its_output_is_small() -> None:
    """Java clients write such a frame for any batch from level 22 on. Its decoder has to remember all of the output."""
    run = zstd_run(128 * 1024, last=False)
    small = zstd_frame(27, run * 200 + zstd_run(1, last=True))
    assert len(decompress(Compression.ZSTD, small)) == 200 * 128 * 1024 + 1
    large = zstd_frame(27, run * 300 + zstd_run(1, last=True))
    with pytest.raises(ProtocolError, match="window"):
        decompress(Compression.ZSTD, large)
    assert len(decompress(Compression.ZSTD, zstd_frame(21, run * 300 + zstd_run(1, last=True)))) > 300 * 128 * 1024


@pytest.mark.parametrize("codec", CODECS)
def test_a_decoder_asks_before_it_goes_on(codec: Compression) -> None:
    class Enough(Exception):
        pass

    def allow(size_bytes: int) -> None:
        if size_bytes >= MIB:
            raise Enough

    taken: list[Buffer] = []
    with pytest.raises(Enough):
        taken.extend(decompressed(codec, compress(codec, bytes(20 * MIB)), allow))
    assert sum(map(len, taken)) < MIB


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.binary(max_size=200))
def test_garbage_gives_a_value_or_a_protocol_error(codec: Compression, data: bytes) -> None:
    try:
        decompress(codec, data, MIB)
    except ProtocolError:
        return


@pytest.mark.parametrize("codec", CODECS)
@given(position=st.integers(0, 2**16), replacement=st.binary(min_size=1, max_size=6))
def test_damage_gives_a_value_or_a_protocol_error(codec: Compression, position: int, replacement: bytes) -> None:
    packed = bytearray(compress(codec, mixed(3000)))
    position %= len(packed)
    packed[position : position + len(replacement)] = replacement
    try:
        decompress(codec, packed, MIB)
    except ProtocolError:
        return


def test_panic_of_the_library_becomes_a_protocol_error(monkeypatch: pytest.MonkeyPatch) -> None:
    panic = type("PanicException", (BaseException,), {})

    def fail(*_: object) -> int:
        raise panic("index out of bounds")

    monkeypatch.setattr(cramjam.snappy, "decompress_raw_into", fail)
    with pytest.raises(ProtocolError, match="index out of bounds"):
        decompress(Compression.SNAPPY, compress(Compression.SNAPPY, b"whatever"))


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_what_the_batch_is_not_to_blame_for_is_not_swallowed(
    monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    def interrupt(*_: object) -> int:
        raise error

    monkeypatch.setattr(cramjam.snappy, "decompress_raw_into", interrupt)
    with pytest.raises(error):
        decompress(Compression.SNAPPY, compress(Compression.SNAPPY, b"whatever"))
