"""The floor: receives Produce requests, checks each batch's CRC32C, writes it to a file, answers. Nothing else.

    python -m bench.peers.floor_server PORT DIRECTORY [fsync]

It knows the four requests that an idempotent producer of librdkafka sends, each in one old version, and keeps no
state but the next offset of a partition: no validation, no sequences, no indexes, no waiting readers. The number of
partitions stands behind the last dash of the topic's name. Its CPU time is what receiving and writing cost in Python.
With `fsync` every batch is on the disk before it is answered.
"""

from __future__ import annotations

import asyncio
import os
import struct
import sys
from pathlib import Path
from typing import cast

import uvloop
from crc32c import crc32c

_API_VERSIONS, _PRODUCE, _FETCH, _METADATA, _INIT_PRODUCER_ID = 18, 0, 1, 3, 22
# Fetch is only named: without it librdkafka believes that the broker is too old for today's batches.
_VERSIONS = ((_PRODUCE, 7, 7), (_FETCH, 4, 4), (_METADATA, 1, 1), (_API_VERSIONS, 0, 0), (_INIT_PRODUCER_ID, 0, 0))
_UNSUPPORTED_VERSION = 35
# Of a request whose size is not known yet; the rest of a larger one is received to where it stays.
_FIRST_BYTES = 1 << 16
_HEAD = struct.Struct(">ihhih")
_BATCH = struct.Struct(">qiibIhi")


class Partition:
    def __init__(self, path: Path, fsync: bool) -> None:
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.fsync = fsync
        self.next_offset = 0

    def append(self, batch: memoryview) -> int:
        _, _, _, _, crc, _, last_offset_delta = _BATCH.unpack_from(batch)
        if crc32c(batch[21:]) != crc:
            raise ValueError("the checksum of a batch is wrong")
        os.write(self.file, batch)
        if self.fsync:
            os.fdatasync(self.file)
        offset = self.next_offset
        self.next_offset = offset + last_offset_delta + 1
        return offset


class Floor:
    def __init__(self, port: int, directory: Path, fsync: bool) -> None:
        self.port = port
        self.directory = directory
        self.fsync = fsync
        self.partitions: dict[tuple[bytes, int], Partition] = {}
        self.producer_ids = 0

    def answer(self, frame: memoryview) -> bytes:
        _, key, version, correlation_id, client_id_bytes = _HEAD.unpack_from(frame)
        body = frame[_HEAD.size + max(client_id_bytes, 0) :]
        if key == _PRODUCE:
            payload = self.produce(body)
        elif key == _METADATA:
            payload = self.metadata(body)
        elif key == _INIT_PRODUCER_ID:
            self.producer_ids += 1
            payload = struct.pack(">ihqh", 0, 0, self.producer_ids, 0)
        else:
            payload = struct.pack(">hi", _UNSUPPORTED_VERSION if version else 0, len(_VERSIONS))
            payload += b"".join(struct.pack(">hhh", *versions) for versions in _VERSIONS)
        return struct.pack(">ii", len(payload) + 4, correlation_id) + payload

    def produce(self, body: memoryview) -> bytes:
        (transactional_id_bytes,) = struct.unpack_from(">h", body)
        position = 2 + max(transactional_id_bytes, 0) + 6
        (topic_count,) = struct.unpack_from(">i", body, position)
        position += 4
        out = [struct.pack(">i", topic_count)]
        for _ in range(topic_count):
            (name_bytes,) = struct.unpack_from(">h", body, position)
            name = bytes(body[position + 2 : position + 2 + name_bytes])
            position += 2 + name_bytes
            (count,) = struct.unpack_from(">i", body, position)
            position += 4
            out.append(struct.pack(f">h{name_bytes}si", name_bytes, name, count))
            for _ in range(count):
                index, size = struct.unpack_from(">ii", body, position)
                position += 8
                offset = self.partition(name, index).append(body[position : position + size])
                position += size
                out.append(struct.pack(">ihqqq", index, 0, offset, -1, 0))
        out.append(bytes(4))
        return b"".join(out)

    def partition(self, name: bytes, index: int) -> Partition:
        found = self.partitions.get((name, index))
        if found is None:
            path = self.directory / f"{name.decode()}-{index}.log"
            found = self.partitions[name, index] = Partition(path, self.fsync)
        return found

    def metadata(self, body: memoryview) -> bytes:
        (count,) = struct.unpack_from(">i", body)
        position = 4
        out = [struct.pack(">iih9sihii", 1, 1, 9, b"127.0.0.1", self.port, -1, 1, max(count, 0))]
        for _ in range(max(count, 0)):
            (size,) = struct.unpack_from(">h", body, position)
            name = bytes(body[position + 2 : position + 2 + size])
            position += 2 + size
            partitions = int(name.rpartition(b"-")[2])
            out.append(struct.pack(f">hh{size}sbi", 0, size, name, 0, partitions))
            out += [struct.pack(">hiiiiii", 0, index, 1, 1, 1, 1, 1) for index in range(partitions)]
        return b"".join(out)


class Connection(asyncio.BufferedProtocol):
    def __init__(self, floor: Floor) -> None:
        self.floor = floor
        self.buffer = bytearray(_FIRST_BYTES)
        self.end = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        wanted = _FIRST_BYTES
        if self.end >= 4:
            wanted = max(wanted, struct.unpack_from(">i", self.buffer)[0] + 4)
            if len(self.buffer) < wanted:
                self.buffer = self.buffer[: self.end] + bytearray(wanted - self.end)
        return memoryview(self.buffer)[self.end : wanted]

    def buffer_updated(self, nbytes: int) -> None:
        self.end += nbytes
        view = memoryview(self.buffer)
        start = 0
        while self.end - start >= 4:
            stop = start + struct.unpack_from(">i", view, start)[0] + 4
            if stop > self.end:
                break
            self.transport.write(self.floor.answer(view[start:stop]))
            start = stop
        if start:
            view[: self.end - start] = view[start : self.end]
            self.end -= start


async def serve(port: int, directory: Path, fsync: bool) -> None:
    floor = Floor(port, directory, fsync)
    server = await asyncio.get_running_loop().create_server(lambda: Connection(floor), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), Path(sys.argv[2]), "fsync" in sys.argv[3:]))
