"""Requests as bytes, made beforehand, over bare sockets: so cheap a client that the broker is what is measured.

For work with hundreds of connections, for filling logs fast, and for the cost of one request of a kind.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from conformance.wire.link import Link, NoAnswer
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.codec import decode, encode
from oncelog.protocol.headers import encode_request_header
from oncelog.protocol.messages import response_class
from oncelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from oncelog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from oncelog.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.protocol.records.batch import CRC_POSITION, build_batch, compute_crc
from oncelog.protocol.records.record import Record
from oncelog.protocol.schema import Message, Struct

# Old enough not to need topic ids, new enough for every peer.
PRODUCE, FETCH, METADATA, LIST_OFFSETS = 7, 11, 7, 5
ANSWER_TIMEOUT_S = 60.0
_RECEIVE_BYTES = 1 << 20
_LATEST = -1
# UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER: what a new partition answers for a moment.
_NOT_YET = {3, 5, 6}
_SIZE = struct.Struct(">i")
# Base and max timestamp of a batch.
_TIMES_POSITION = 27


class WireError(Exception):
    """A broker answered a request of a load with an error, or not at all."""


class Driven(NamedTuple):
    requests: int
    received_bytes: int
    latencies_s: list[float]


def batch(record_count: int, record_bytes: int) -> bytes:
    """Records with random values, uncompressed, of now, by a producer without an id."""
    now_ms = int(time.time() * 1000)
    return bytes(build_batch([Record(0, now_ms, None, os.urandom(record_bytes)) for _ in range(record_count)]))


def produce_frame(topic: str, partition: int, records: bytes) -> bytes:
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=records)])
    return frame(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data]), PRODUCE)


def fetch_frame(topic: str, partition: int, offset: int, max_bytes: int) -> bytes:
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes)
    topics = [FetchTopic(topic=topic, partitions=[wanted])]
    return frame(
        FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=max_bytes, isolation_level=1, topics=topics), FETCH
    )


def metadata_frame(topic: str) -> bytes:
    return frame(MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False), METADATA)


def list_offsets_frame(topic: str, partition: int, timestamp_ms: int = _LATEST) -> bytes:
    wanted = ListOffsetsPartition(partition_index=partition, timestamp=timestamp_ms)
    topics = [ListOffsetsTopic(name=topic, partitions=[wanted])]
    return frame(ListOffsetsRequest(replica_id=-1, topics=topics), LIST_OFFSETS)


def frame(request: Message, version: int) -> bytes:
    assert request.API_KEY is not None
    payload = encode_request_header(request.API_KEY, version, 1, "bench", version in type(request).FLEXIBLE)
    payload += encode(request, version)
    return _SIZE.pack(len(payload)) + payload


def is_ready(address: str) -> bool:
    """Whether a broker serves there: it answers, and it names itself."""
    link = Link(address)
    try:
        return bool(link.ask(MetadataRequest(topics=[]), 1).brokers)
    except (OSError, NoAnswer):
        return False
    finally:
        link.close()


def end_offset(address: str, topic: str) -> int:
    """Of the topic's first partition."""
    return end_offsets(address, topic, 1)[0]


def end_offsets(address: str, topic: str, partitions: int) -> list[int]:
    """Of the topic's first partitions; waits for those that were just created and have no leader yet."""
    wanted = [ListOffsetsPartition(partition_index=index, timestamp=_LATEST) for index in range(partitions)]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=wanted)])
    deadline = time.monotonic() + ANSWER_TIMEOUT_S
    link = Link(address)
    try:
        while True:
            answers = sorted(link.ask(request, LIST_OFFSETS).topics[0].partitions, key=lambda one: one.partition_index)
            codes = {answer.error_code for answer in answers} - {0}
            if not codes:
                return [int(answer.offset) for answer in answers]
            if codes - _NOT_YET or time.monotonic() > deadline:
                raise WireError(f"ListOffsets of {topic} answered with errors {sorted(codes)}")
            time.sleep(0.01)
    finally:
        link.close()


def fill(address: str, topic: str, partitions: int, megabytes: float, record_bytes: int, batch_bytes: int) -> int:
    """Appends that much to the partitions in turn, in batches of the same size for every peer; the records' count."""
    per_batch = max(1, batch_bytes // record_bytes)
    count = max(partitions, round(megabytes * 1e6 / (per_batch * record_bytes)))
    before = sum(end_offsets(address, topic, partitions))
    records = batch(per_batch, record_bytes)
    frames = [produce_frame(topic, partition, records) for partition in range(partitions)]
    drive(address, [_Stamped(frames, len(records))], window=4, requests=count)
    after = sum(end_offsets(address, topic, partitions))
    if after - before != count * per_batch:
        raise WireError(f"{count * per_batch} records were sent to {topic}, and it has {after - before} of them")
    return count * per_batch


def check_answers(address: str, frames: Sequence[bytes]) -> None:
    """Sends each once and looks at the answer: a load only counts answers, and errors are cheap ones."""
    host, _, port = address.rpartition(":")
    connection = socket.create_connection((host, int(port)), ANSWER_TIMEOUT_S)
    with connection, connection.makefile("rb") as answers:
        for one in frames:
            connection.sendall(one)
            (size,) = _SIZE.unpack(answers.read(_SIZE.size))
            key, version = struct.unpack_from(">hh", one, _SIZE.size)
            # Behind the correlation id; versions with more in their header are not sent here.
            answer = decode(response_class(ApiKey(key)), version, answers.read(size), 4)
            if codes := set(_error_codes(answer)) - {0}:
                raise WireError(f"{type(answer).__name__} has errors {sorted(codes)}")


def _error_codes(value: object) -> Iterator[int]:
    if isinstance(value, list):
        for one in value:
            yield from _error_codes(one)
    elif isinstance(value, Struct):
        for field in value.fields():
            if field.name == "error_code":
                yield getattr(value, field.name)
            else:
                yield from _error_codes(getattr(value, field.name))


def drive(
    address: str,
    frames: Sequence[Sequence[bytes]],
    *,
    window: int = 1,
    seconds: float = ANSWER_TIMEOUT_S * 60,
    requests: int | None = None,
) -> Driven:
    """A connection for each list of frames, which it sends in a circle, `window` at a time, for so long or so many."""
    with driver(address, frames, window=window, requests=requests) as run:
        return run(seconds)


@contextmanager
def driver(
    address: str, frames: Sequence[Sequence[bytes]], *, window: int = 1, requests: int | None = None
) -> Iterator[Callable[[float], Driven]]:
    """The same in two steps, for those who do not want to measure how long it takes to connect."""
    with _connected(address, frames) as connections:
        yield _Loop(connections, window, requests).run


@contextmanager
def idle_connections(address: str, count: int) -> Iterator[None]:
    """Connections that have introduced themselves and then keep silent."""
    hello = frame(MetadataRequest(topics=[]), METADATA)
    with _connected(address, [[hello]] * count) as connections:
        _Loop(connections, 1, count).run(ANSWER_TIMEOUT_S)
        yield


class _Stamped(Sequence[bytes]):
    """Produce requests whose one batch, at their end, gets the time at which it is sent.

    A log in which time stands still has no use for its time index, and a look-up by time would read all of it.
    """

    def __init__(self, frames: Sequence[bytes], batch_bytes: int) -> None:
        self._frames, self._batch_bytes = frames, batch_bytes

    def __len__(self) -> int:
        return len(self._frames)

    def __getitem__(self, index: Any) -> Any:
        frame = bytearray(self._frames[index])
        start = len(frame) - self._batch_bytes
        now_ms = int(time.time() * 1000)
        struct.pack_into(">qq", frame, start + _TIMES_POSITION, now_ms, now_ms)
        struct.pack_into(">I", frame, start + CRC_POSITION, compute_crc(memoryview(frame)[start:]))
        return frame


class _Connection:
    def __init__(self, address: tuple[str, int], frames: Sequence[bytes]) -> None:
        self.socket = socket.create_connection(address, ANSWER_TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.frames = frames
        self.sent = 0
        self.answered = 0
        self.received_bytes = 0
        self.sent_at = 0.0
        self.unsent = memoryview(b"")
        self.awaits_room = False
        self._head = b""
        self._missing = 0

    def send_next(self) -> None:
        self.unsent = memoryview(self.frames[self.sent % len(self.frames)])
        self.sent += 1
        self.sent_at = time.perf_counter()
        self.send_rest()

    def send_rest(self) -> None:
        try:
            while self.unsent:
                self.unsent = self.unsent[self.socket.send(self.unsent) :]
        except BlockingIOError:
            pass

    def receive(self, buffer: bytearray) -> int:
        """How many answers were completed by what has come."""
        size = self.socket.recv_into(buffer)
        if not size:
            raise WireError("the broker closed a connection of the load")
        self.received_bytes += size
        position = done = 0
        while position < size:
            if not self._missing:
                head = self._head + buffer[position : min(size, position + _SIZE.size - len(self._head))]
                position += len(head) - len(self._head)
                self._head = head
                if len(head) == _SIZE.size:
                    (self._missing,) = _SIZE.unpack(head)
                    self._head = b""
                continue
            step = min(self._missing, size - position)
            self._missing -= step
            position += step
            done += not self._missing
        self.answered += done
        return done


@contextmanager
def _connected(address: str, frames: Sequence[Sequence[bytes]]) -> Iterator[list[_Connection]]:
    host, _, port = address.rpartition(":")
    connections: list[_Connection] = []
    try:
        for own in frames:
            connections.append(_Connection((host, int(port)), own))
        yield connections
    finally:
        for connection in connections:
            connection.socket.close()


class _Loop:
    def __init__(self, connections: Sequence[_Connection], window: int, requests: int | None) -> None:
        self._by_descriptor = {connection.socket.fileno(): connection for connection in connections}
        self._window = window
        self._left = requests if requests is not None else 1 << 62
        self._epoll = select.epoll()
        self._latencies_s: list[float] = []
        for descriptor in self._by_descriptor:
            self._epoll.register(descriptor, select.EPOLLIN)

    def run(self, seconds: float) -> Driven:
        deadline = time.perf_counter() + seconds
        for connection in self._by_descriptor.values():
            self._refill(connection)
        in_flight = sum(connection.sent for connection in self._by_descriptor.values())
        buffer = bytearray(_RECEIVE_BYTES)
        with self._epoll:
            while in_flight:
                in_flight += self._turn(buffer)
                if self._left and time.perf_counter() > deadline:
                    self._left = 0
        connections = self._by_descriptor.values()
        answered = sum(connection.answered for connection in connections)
        return Driven(answered, sum(connection.received_bytes for connection in connections), self._latencies_s)

    def _turn(self, buffer: bytearray) -> int:
        """What this turn has added to the requests in flight."""
        events = self._epoll.poll(ANSWER_TIMEOUT_S)
        if not events:
            raise WireError(f"the broker kept silent for {ANSWER_TIMEOUT_S:.0f} s")
        change = 0
        for descriptor, event in events:
            connection = self._by_descriptor[descriptor]
            sent = connection.sent
            if event & ~select.EPOLLOUT:
                done = connection.receive(buffer)
                change -= done
                if done and self._window == 1:
                    self._latencies_s.append(time.perf_counter() - connection.sent_at)
            if connection.unsent:
                connection.send_rest()
            self._refill(connection)
            change += connection.sent - sent
        return change

    def _refill(self, connection: _Connection) -> None:
        while not connection.unsent and self._left and connection.sent - connection.answered < self._window:
            connection.send_next()
            self._left -= 1
        if bool(connection.unsent) is not connection.awaits_room:
            connection.awaits_room = not connection.awaits_room
            wanted = select.EPOLLIN | (select.EPOLLOUT if connection.awaits_room else 0)
            self._epoll.modify(connection.socket.fileno(), wanted)
