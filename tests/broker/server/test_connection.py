"""A connection driven without a socket: order, pipelining, back-pressure, and what closes it."""

from __future__ import annotations

import asyncio
import errno
import gc
import itertools
import struct
from typing import Any

import pytest

from oncelog.broker.base.immediate_future import Promise
from oncelog.broker.base.turns import Turns
from oncelog.broker.server.connection import (
    PIPELINED_REQUESTS_MAX,
    READ_AHEAD_BYTES_MAX,
    TURN_SECONDS,
    Connection,
)
from oncelog.broker.server.dispatch import Reply
from oncelog.broker.server.limits import FrameMemory
from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.primitives import StoredBytes


class FakeTransport:
    def __init__(self) -> None:
        self.written = b""
        self.aborted = False
        self.reading = True

    def set_write_buffer_limits(self, high: int) -> None:
        assert high > 0

    def get_extra_info(self, _: str) -> tuple[str, int]:
        return ("127.0.0.1", 1)

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes) -> None:
        self.written += data

    def writelines(self, parts: list[bytes]) -> None:
        self.written += b"".join(parts)

    def abort(self) -> None:
        self.aborted = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


class FakeListener:
    name = "TEST"

    def __init__(self) -> None:
        self.open: set[Connection] = set()
        self.frame_memory = FrameMemory(size_bytes_max=100_000)

    def monotonic(self) -> float:
        return 0.0

    def admit(self, connection: Connection) -> bool:
        self.open.add(connection)
        return True

    def forget(self, connection: Connection) -> None:
        self.open.discard(connection)


class FakeDispatcher:
    """Hands out the replies in `self.started`, one for each request, for the test to finish."""

    frame_size_bytes_max = 500_000

    def __init__(self) -> None:
        self.started: list[tuple[bytes, Reply]] = []
        self.throttle_time_ms = 0
        self.turns = Turns()
        self.now = 0.0
        self.request_seconds = 0.0

    def dispatch(self, request: memoryview, _: Connection) -> Reply:
        body = bytes(request)
        self.now += self.request_seconds
        if body.startswith(b"bad"):
            raise ProtocolError("bad request")
        reply = Reply(pipelined=body.startswith(b"pipe"), abandonable=body.startswith(b"poll"))
        reply.keeps_frame = body.startswith(b"keep")
        if body.startswith(b"now"):
            reply.finish([body])
        elif body.startswith(b"none"):
            reply.finish(None)
        reply.throttle_time_ms = self.throttle_time_ms
        self.started.append((body, reply))
        return reply


class Driver:
    def __init__(self, dispatcher: FakeDispatcher | None = None) -> None:
        self.dispatcher: Any = dispatcher or FakeDispatcher()
        self.listener: Any = FakeListener()
        self.transport: Any = FakeTransport()
        self.connection = Connection(self.listener, self.dispatcher)
        self.connection.connection_made(self.transport)

    def send(self, *bodies: bytes) -> None:
        for body in bodies:
            self.feed(framed(body))

    def feed(self, data: bytes) -> None:
        while data:
            room = self.connection.get_buffer(-1)
            size = min(len(room), len(data))
            room[:size] = data[:size]
            data = data[size:]
            self.connection.buffer_updated(size)

    def finish(self, index: int) -> None:
        body, reply = self.dispatcher.started[index]
        reply.finish([body])

    @property
    def started(self) -> list[bytes]:
        return [body for body, _ in self.dispatcher.started]


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


@pytest.fixture
def driver() -> Driver:
    return Driver()


def test_an_answer_that_does_not_wait_is_written_at_once(driver: Driver) -> None:
    driver.send(b"now-0001", b"now-0002")
    assert driver.transport.written == framed(b"now-0001") + framed(b"now-0002")


def test_several_requests_in_one_read(driver: Driver) -> None:
    driver.feed(framed(b"now-0001") + framed(b"now-0002") + framed(b"now-0003")[:7])
    assert driver.started == [b"now-0001", b"now-0002"]


async def test_a_request_that_waits_holds_the_next_back(driver: Driver) -> None:
    driver.send(b"wait-001", b"now-0002")
    assert driver.started == [b"wait-001"]
    driver.finish(0)
    assert driver.transport.written == framed(b"wait-001")
    # Whoever has finished it may be in the midst of something else.
    assert driver.started == [b"wait-001"]
    await asyncio.sleep(0)
    assert driver.transport.written == framed(b"wait-001") + framed(b"now-0002")


async def test_while_a_request_waits_a_little_is_read_ahead(driver: Driver) -> None:
    """A transport that does not read does not see the end of the connection either."""
    driver.send(b"wait-001", b"now-0002")
    assert driver.transport.reading
    ahead = framed(b"now-data" + bytes(500)) * (READ_AHEAD_BYTES_MAX // 512)
    driver.feed(ahead)
    assert driver.started == [b"wait-001"]
    assert not driver.transport.reading
    driver.finish(0)
    await asyncio.sleep(0)
    assert driver.transport.written == framed(b"wait-001") + framed(b"now-0002") + ahead
    assert driver.transport.reading


async def test_nothing_is_received_over_a_frame_that_is_kept(driver: Driver) -> None:
    driver.feed(framed(b"keep-001") + framed(b"now-0002"))
    assert driver.started == [b"keep-001"]
    assert not driver.transport.reading
    driver.connection.resume_writing()
    assert not driver.transport.reading
    driver.finish(0)
    await asyncio.sleep(0)
    assert driver.transport.written == framed(b"keep-001") + framed(b"now-0002")
    assert driver.transport.reading


async def test_the_next_request_may_start_before_the_answer(driver: Driver) -> None:
    driver.feed(framed(b"keep-001") + framed(b"keep-002") + framed(b"now-0003"))
    driver.connection.start_next(0)
    assert driver.started == [b"keep-001"]
    await asyncio.sleep(0)
    assert driver.started == [b"keep-001", b"keep-002"]
    # The first does not end what the second has claimed.
    driver.finish(0)
    await asyncio.sleep(0)
    assert driver.started == [b"keep-001", b"keep-002"]
    assert not driver.transport.reading
    driver.finish(1)
    await asyncio.sleep(0)
    assert driver.transport.written == b"".join(map(framed, driver.started))
    assert driver.transport.reading


async def test_a_throttle_holds_back_the_next_request_that_may_start_before_the_answer(driver: Driver) -> None:
    driver.feed(framed(b"keep-001") + framed(b"now-0002"))
    driver.connection.start_next(1)
    await asyncio.sleep(0)
    assert driver.started == [b"keep-001"]
    while len(driver.started) < 2:
        await asyncio.sleep(0.001)


async def test_a_peer_that_hangs_up_while_its_frame_is_kept_leaves_nothing_behind(driver: Driver) -> None:
    driver.feed(framed(b"keep-001") + framed(b"pipe-002"))
    driver.connection.connection_lost(None)
    assert driver.started == [b"keep-001"]
    driver.connection.start_next(0)
    await asyncio.sleep(0)
    assert driver.started == [b"keep-001", b"pipe-002"]
    driver.finish(0)
    driver.finish(1)
    await asyncio.sleep(0)
    assert driver.listener.frame_memory.used_bytes == 0
    driver.connection.start_next(0)
    await asyncio.sleep(0)


@pytest.fixture
def slow(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> Driver:
    """Each request takes a quarter of what a connection may have of one turn of the loop."""
    driver.dispatcher.request_seconds = TURN_SECONDS / 4
    monkeypatch.setattr("time.perf_counter", lambda: driver.dispatcher.now)
    return driver


async def test_a_connection_has_a_share_of_the_loops_time(slow: Driver) -> None:
    """Whatever else waits for the event loop comes in between."""
    slow.feed(framed(b"now-0001") * 12)
    assert len(slow.started) == 5
    assert not slow.transport.reading
    await asyncio.sleep(0)
    assert len(slow.started) == 10
    await asyncio.sleep(0)
    assert len(slow.started) == 12
    assert slow.transport.reading


async def test_connections_with_much_to_do_take_turns(slow: Driver) -> None:
    other: Any = Driver(slow.dispatcher)
    slow.feed(framed(b"now-0001") * 15)
    other.feed(framed(b"now-0002") * 15)
    while len(slow.started) < 30:
        await asyncio.sleep(0)
    turns = [body for body, _ in itertools.groupby(slow.started)]
    assert turns == [b"now-0001", b"now-0002"] * 3


async def test_many_quick_requests_are_handled_at_once(slow: Driver) -> None:
    slow.dispatcher.request_seconds = TURN_SECONDS / 1000
    slow.feed(framed(b"now-0001") * 500)
    assert len(slow.started) == 500


async def test_requests_that_wait_for_their_turn_end_with_the_connection(slow: Driver) -> None:
    slow.feed(framed(b"now-0001") * 12)
    slow.connection.close("for a test")
    slow.connection.connection_lost(None)
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(slow.started) == 5


async def test_a_large_request_keeps_its_frame_and_its_memory_is_counted(driver: Driver) -> None:
    memory = driver.listener.frame_memory
    kept: list[memoryview] = []

    def dispatch(request: memoryview, connection: Connection) -> Reply:
        if bytes(request[:4]) == b"wait":
            connection.keep_frame()
            kept.append(request)
        return FakeDispatcher.dispatch(driver.dispatcher, request, connection)

    driver.dispatcher.dispatch = dispatch
    body = b"wait" + b"x" * 60_000
    driver.feed(framed(body) + framed(b"now-0002"))
    driver.feed(framed(b"now-0003"))
    assert bytes(kept[0]) == body, "what came later was received elsewhere"
    assert memory.used_bytes > 60_000
    kept.clear()
    driver.finish(0)
    assert memory.used_bytes < 60_000
    driver.connection.connection_lost(None)
    assert memory.used_bytes == 0


def test_pipelined_requests_start_together_and_are_answered_in_order(driver: Driver) -> None:
    driver.send(b"pipe-001", b"pipe-002", b"now-0003")
    assert driver.started == [b"pipe-001", b"pipe-002", b"now-0003"]
    driver.finish(1)
    assert driver.transport.written == b""
    driver.finish(0)
    assert driver.transport.written == b"".join(map(framed, driver.started))


async def test_the_number_of_pipelined_requests_is_bounded(driver: Driver) -> None:
    driver.feed(framed(b"pipe-xyz") * (PIPELINED_REQUESTS_MAX + 50))
    # On a slow machine they take more than one turn.
    for _ in range(PIPELINED_REQUESTS_MAX):
        await asyncio.sleep(0)
    assert len(driver.started) == PIPELINED_REQUESTS_MAX
    assert not driver.transport.reading
    for index in range(PIPELINED_REQUESTS_MAX + 50):
        driver.finish(index)
        await asyncio.sleep(0)
    assert driver.transport.written == framed(b"pipe-xyz") * (PIPELINED_REQUESTS_MAX + 50)


def test_nothing_is_written_for_a_request_without_an_answer(driver: Driver) -> None:
    driver.send(b"none-001", b"now-0002")
    assert driver.transport.written == framed(b"now-0002")


def test_a_peer_that_does_not_read_is_not_read_from(driver: Driver) -> None:
    driver.connection.pause_writing()
    driver.send(b"now-0001")
    assert driver.started == []
    assert not driver.transport.reading
    driver.connection.resume_writing()
    assert driver.started == [b"now-0001"]


@pytest.mark.parametrize("data", [framed(b"bad-0001"), struct.pack(">i", 500_001), struct.pack(">i", -5)])
def test_a_malformed_request_closes_the_connection(driver: Driver, data: bytes) -> None:
    driver.feed(data)
    assert driver.transport.aborted
    assert driver.transport.written == b""


def test_a_failure_closes_instead_of_answering(driver: Driver) -> None:
    driver.send(b"wait-001")
    driver.dispatcher.started[0][1].fail("a bug")
    assert driver.transport.aborted


class Unreadable(StoredBytes):
    def __len__(self) -> int:
        return 100_000

    def read(self) -> bytes:
        raise OSError(errno.EIO, "the disk failed")


def test_an_answer_that_waited_and_cannot_be_read_closes_the_connection(driver: Driver) -> None:
    driver.send(b"wait-001")
    driver.dispatcher.started[0][1].finish([b"head", Unreadable()])
    assert driver.transport.aborted
    assert driver.transport.written == b""


async def test_a_long_poll_ends_with_the_connection(driver: Driver) -> None:
    driver.send(b"poll-001")
    reply = driver.dispatcher.started[0][1]
    reply.promise = Promise()
    driver.connection.connection_lost(None)
    assert reply.promise.cancelled()
    assert driver.listener.open == set()


async def test_what_changes_something_is_carried_through_without_its_peer(driver: Driver) -> None:
    driver.send(b"wait-001")
    reply = driver.dispatcher.started[0][1]
    reply.promise = Promise()
    driver.connection.connection_lost(None)
    assert not reply.promise.cancelled()
    assert driver.listener.open == set()


async def test_what_came_before_the_peer_hung_up_is_handled_in_order(driver: Driver) -> None:
    driver.feed(framed(b"wait-001") + framed(b"now-0002") + framed(b"wait-003") + framed(b"now-0004") + b"\x00")
    driver.connection.connection_lost(None)
    assert driver.started == [b"wait-001"]
    assert driver.listener.open == set()
    driver.finish(0)
    await asyncio.sleep(0)
    assert driver.started == [b"wait-001", b"now-0002", b"wait-003"]
    driver.finish(2)
    await asyncio.sleep(0)
    assert driver.started[-1] == b"now-0004"
    assert driver.transport.written == b""
    assert driver.listener.frame_memory.used_bytes == 0


async def test_what_a_peer_held_is_given_back_when_its_last_request_is_done(driver: Driver) -> None:
    driver.feed(framed(b"wait-001"))
    driver.connection.connection_lost(None)
    driver.finish(0)
    await asyncio.sleep(0)
    assert driver.listener.frame_memory.used_bytes == 0


async def test_a_poll_is_not_begun_for_a_peer_that_hung_up(driver: Driver) -> None:
    driver.feed(framed(b"wait-001") + framed(b"poll-002") + framed(b"now-0003"))
    driver.connection.connection_lost(None)
    driver.finish(0)
    await asyncio.sleep(0)
    assert driver.started == [b"wait-001", b"poll-002", b"now-0003"]
    assert driver.listener.frame_memory.used_bytes == 0


async def test_a_malformed_request_ends_what_is_left_of_a_peer_that_hung_up(driver: Driver) -> None:
    driver.feed(framed(b"wait-001") + framed(b"bad-0002") + framed(b"now-0003"))
    driver.connection.connection_lost(None)
    driver.finish(0)
    await asyncio.sleep(0)
    assert driver.started == [b"wait-001"]
    assert driver.listener.frame_memory.used_bytes == 0


async def test_a_throttled_client_is_not_read_from_until_its_time_is_over(driver: Driver) -> None:
    driver.dispatcher.throttle_time_ms = 1
    driver.feed(framed(b"now-0001") + framed(b"now-0002"))
    assert driver.started == [b"now-0001"]
    assert not driver.transport.reading
    while len(driver.started) < 2:
        await asyncio.sleep(0.001)


def test_a_large_request_waits_for_memory_that_others_hold(driver: Driver) -> None:
    memory = driver.listener.frame_memory
    memory.change(80_000)
    driver.feed(struct.pack(">i", 300_000) + bytes(12_000))
    assert driver.transport.reading
    memory.change(10_000)
    driver.feed(bytes(100))
    assert not driver.transport.reading
    memory.change(-90_000)
    assert driver.transport.reading
    driver.connection.connection_lost(None)
    assert memory.used_bytes == 0


async def test_a_throttle_that_is_known_only_at_the_end_counts_too(driver: Driver) -> None:
    driver.send(b"wait-001", b"now-0002")
    reply = driver.dispatcher.started[0][1]
    reply.throttle_time_ms = 1
    driver.finish(0)
    assert driver.transport.written == framed(b"wait-001")
    assert driver.started == [b"wait-001"]
    while len(driver.started) < 2:
        await asyncio.sleep(0.001)


def test_a_request_that_is_given_up_closes_its_connection(driver: Driver) -> None:
    driver.send(b"wait-001")
    driver.dispatcher.started[0][1].fail("given up")
    assert driver.transport.aborted


def test_a_connection_that_has_ended_does_not_wait_for_the_garbage_collector() -> None:
    gc.collect()
    gc.disable()
    try:
        driver = Driver()
        driver.send(b"now-0001")
        driver.connection.connection_lost(None)
        number = driver.connection.connection_number
        del driver
        left = [found.connection_number for found in gc.get_objects() if type(found) is Connection]
        assert number not in left
    finally:
        gc.enable()
