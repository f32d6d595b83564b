"""Frames come out whole and in order however the bytes come in, and memory follows the bytes that came."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.framing import CAPACITY_BYTES_MIN, FrameBuffer, frame

SIZE_MAX = 104_857_600


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def receive(buffer: FrameBuffer, data: bytes, chunk_sizes: list[int]) -> list[bytes]:
    """Feed `data` in chunks, taking frames out after each as a connection does."""
    frames = []
    position = turn = 0
    while position < len(data):
        room = buffer.room()
        size = min(chunk_sizes[turn % len(chunk_sizes)], len(room), len(data) - position)
        room[:size] = data[position : position + size]
        buffer.received(size)
        position += size
        turn += 1
        while (whole := buffer.next_frame()) is not None:
            frames.append(bytes(whole))
    return frames


@given(
    st.lists(st.integers(8, 400) | st.just(70_000), max_size=12),
    st.lists(st.integers(1, 50_000), min_size=1, max_size=5),
)
def test_any_chunking_gives_the_same_frames(sizes: list[int], chunk_sizes: list[int]) -> None:
    payloads = [bytes([index]) * size for index, size in enumerate(sizes)]
    data = b"".join(map(framed, payloads))
    assert receive(FrameBuffer(SIZE_MAX), data, chunk_sizes) == payloads


def test_byte_by_byte() -> None:
    payloads = [b"12345678", b"abcdefgh" * 9]
    assert receive(FrameBuffer(SIZE_MAX), b"".join(map(framed, payloads)), [1]) == payloads


@pytest.mark.parametrize(
    ("head", "says"),
    [
        (struct.pack(">i", -1), "too short"),
        (struct.pack(">i", 0), "too short"),
        (struct.pack(">i", 7), "too short"),
        (struct.pack(">i", SIZE_MAX + 1), "socket.request.max.bytes"),
        (b"\x16\x03\x01\x02", "TLS"),
        (b"GET ", "HTTP"),
    ],
)
def test_a_bad_size_is_refused_with_a_guess_of_its_cause(head: bytes, says: str) -> None:
    buffer = FrameBuffer(SIZE_MAX)
    with pytest.raises(ProtocolError, match=says):
        receive(buffer, head, [4])


def test_a_claim_alone_takes_no_memory() -> None:
    buffer = FrameBuffer(SIZE_MAX)
    sent = struct.pack(">i", 100_000_000) + bytes(1000)
    assert receive(buffer, sent, [1]) == []
    assert buffer.capacity_bytes == CAPACITY_BYTES_MIN
    receive(buffer, bytes(1_000_000), [1 << 20])
    assert buffer.capacity_bytes <= 2 * buffer.buffered_bytes + CAPACITY_BYTES_MIN
    assert buffer.wants_more_memory


def test_trim_gives_memory_back_only_when_nothing_is_buffered() -> None:
    buffer = FrameBuffer(SIZE_MAX)
    receive(buffer, framed(bytes(100_000)) + b"\0\0", [1 << 20])
    buffer.trim()
    assert buffer.buffered_bytes == 2
    assert receive(buffer, b"\0\x08" + b"12345678", [3]) == [b"12345678"]
    buffer.trim()
    assert buffer.capacity_bytes == 0


@given(st.lists(st.integers(0, 100) | st.just(40_000), max_size=8))
def test_frame_keeps_the_bytes_and_passes_large_parts_on_uncopied(sizes: list[int]) -> None:
    parts = [bytes([index]) * size for index, size in enumerate(sizes)]
    framed_parts = frame(list(parts))
    assert b"".join(framed_parts) == framed(b"".join(parts))
    large = [part for part in parts if len(part) > 32 * 1024]
    if sum(map(len, parts)) > 32 * 1024:
        assert all(any(part is out for out in framed_parts) for part in large)
