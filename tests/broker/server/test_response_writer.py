"""Answers from memory and from files on one real socket: order, slow readers, files that fail."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from oncelog.broker.log.disk import Disk
from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.log_manager import LogManager
from oncelog.broker.log.log_reader import Location
from oncelog.broker.log.open_files import OpenFiles
from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.log.segment import Segment
from oncelog.broker.server.response_writer import TURN_BYTES_MAX, Outgoing
from oncelog.protocol.primitives import Part
from oncelog.protocol.records.batch import build_batch, read_header
from oncelog.protocol.records.record import Record

FILE_BYTES = 3 * TURN_BYTES_MAX + 12_345


class Writing(asyncio.Protocol):
    """The broker's end of a connection."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.outgoing = Outgoing(
            transport,
            lambda: self.events.append("blocked"),
            lambda: self.events.append("drained"),
            self.failed,
        )

    def failed(self, reason: str) -> None:
        self.events.append(reason)
        self.transport.abort()

    def connection_lost(self, _: Exception | None) -> None:
        self.outgoing.close()
        self.lost.set()


class Peers:
    def __init__(self, writing: Writing, reader: asyncio.StreamReader) -> None:
        self.writing = writing
        self.outgoing = writing.outgoing
        self.reader = reader


@pytest.fixture
async def peers() -> AsyncIterator[Peers]:
    ours, theirs = socket.socketpair()
    _, writing = await asyncio.get_running_loop().create_connection(Writing, sock=ours)
    reader, writer = await asyncio.open_connection(sock=theirs)
    yield Peers(writing, reader)
    writing.transport.abort()
    await writing.lost.wait()
    writer.close()
    await writer.wait_closed()


@pytest.fixture
def segment(tmp_path: Path) -> Segment:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(random.Random(1).randbytes(FILE_BYTES))
    return Segment(Disk(), OpenFiles(), str(tmp_path), 0, sizes={path.name: FILE_BYTES}, created_ms=0)


def stored(segment: Segment, position: int, size_bytes: int) -> Part:
    return Location(segment, position, size_bytes, 0).stored()


def content(segment: Segment, position: int = 0, size_bytes: int = FILE_BYTES) -> bytes:
    return segment.disk.pread_exactly(segment.file(), size_bytes, position)


async def test_order_is_kept_between_memory_and_files(peers: Peers, segment: Segment) -> None:
    outgoing = peers.outgoing
    outgoing.write([b"first "])
    outgoing.write([b"head", stored(segment, 1000, 50_000), b"between", stored(segment, 0, FILE_BYTES), b"tail"])
    outgoing.write([b" last"])
    expected = b"first head" + content(segment, 1000, 50_000) + b"between" + content(segment) + b"tail last"
    assert await peers.reader.readexactly(len(expected)) == expected
    segment.close_file()


async def test_a_peer_that_reads_slowly_gets_everything(peers: Peers, segment: Segment) -> None:
    outgoing = peers.outgoing
    outgoing.write([b"head", stored(segment, 0, FILE_BYTES), stored(segment, 7, 100_000)])
    assert peers.writing.events == ["blocked"]
    outgoing.write([b"next"])
    assert 0 < outgoing.unsent_bytes < FILE_BYTES + 100_008
    # The file may be closed and opened again meanwhile.
    segment.close_file()
    expected = b"head" + content(segment) + content(segment, 7, 100_000) + b"next"
    assert await peers.reader.readexactly(len(expected)) == expected
    assert peers.writing.events == ["blocked", "drained"]
    assert outgoing.unsent_bytes == 0
    outgoing.write([b"through the transport again"])
    assert await peers.reader.readexactly(27) == b"through the transport again"
    segment.close_file()


async def test_a_file_that_shrank_ends_the_connection(peers: Peers, segment: Segment) -> None:
    os.truncate(Path(segment.directory) / "00000000000000000000.log", 40_000)
    peers.outgoing.write([b"head", stored(segment, 0, 50_000)])
    await peers.writing.lost.wait()
    # What is there looks like all that the socket takes for now.
    assert peers.writing.events == ["blocked", "an answer could not be sent: the file is shorter than it was"]
    segment.close_file()


async def test_without_a_descriptor_an_answer_goes_through_memory(
    peers: Peers, segment: Segment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: int) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patched:
        patched.setattr(socket, "dup", refuse)
        peers.outgoing.write([b"head", stored(segment, 0, 50_000)])
    peers.outgoing.write([b"next", stored(segment, 7, 50_000)])
    expected = b"head" + content(segment, 0, 50_000) + b"next" + content(segment, 7, 50_000)
    assert await peers.reader.readexactly(len(expected)) == expected
    segment.close_file()


async def test_a_file_that_cannot_be_read_ends_the_connection(peers: Peers, segment: Segment) -> None:
    """Nor is the peer left waiting if the answer would have gone through memory, behind what it has not taken yet."""
    peers.outgoing.write([bytes(FILE_BYTES)])
    assert peers.outgoing.unsent_bytes
    os.unlink(Path(segment.directory) / "00000000000000000000.log")
    peers.outgoing.write([b"head", stored(segment, 0, 50_000)])
    await peers.writing.lost.wait()
    assert peers.writing.events == ["an answer could not be sent: No such file or directory"]


def filled(manager: LogManager, topic_id: bytes, value: bytes) -> PartitionLog:
    log = manager.create("t", 0, topic_id, now_ms=0)
    while log.size_bytes < FILE_BYTES:
        batch = build_batch([Record(0, 0, None, value)])
        log.append(batch, read_header(batch), leader_epoch=0, now_ms=0)
    return log


async def test_nothing_of_a_new_topic_is_sent_for_the_deleted_one_of_its_name(peers: Peers, tmp_path: Path) -> None:
    manager = LogManager.open(str(tmp_path), lambda _: LogConfig())
    log = filled(manager, b"1" * 16, b"old" * 200_000)
    end_offset = log.end_offset
    answer = b"head" + log.read(0, size_bytes_max=FILE_BYTES, end_offset=end_offset).records
    located = log.locate(0, size_bytes_max=FILE_BYTES, end_offset=end_offset)
    peers.outgoing.write([b"head", located.stored()])
    assert peers.writing.events == ["blocked"]
    manager.delete("t", 0, token="x", now_ms=0)
    filled(manager, b"2" * 16, b"new" * 200_000)
    received = bytearray()
    while len(received) < len(answer) and (part := await peers.reader.read(1 << 20)):
        received += part
    assert answer.startswith(received)
    assert peers.writing.events == ["blocked", "an answer could not be sent: the records are gone"]
    manager.close(clean=False)


async def test_a_peer_that_leaves_in_the_middle(peers: Peers, segment: Segment) -> None:
    peers.outgoing.write([b"head", stored(segment, 0, FILE_BYTES)])
    assert peers.writing.events == ["blocked"]
    peers.writing.transport.abort()
    await peers.writing.lost.wait()
    assert peers.outgoing.unsent_bytes == 0
    # The duplicate of the socket is closed too, so the peer sees the end.
    while await peers.reader.read(1 << 20):
        pass
    segment.close_file()
