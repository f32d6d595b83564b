"""Rows 4, 16 and 69: peers that are slow, greedy or many."""

from __future__ import annotations

import resource
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import psutil
import pytest

from oncelog.broker.server.connection import WRITE_BUFFER_BYTES_MAX, Connection
from oncelog.broker.server.listener import STALLED_SECONDS_MAX, Listener
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.messages.metadata import MetadataRequest
from oncelog.testing import Broker
from tests.bad_input.conftest import Neighbour, StartBroker
from tests.bad_input.live import LiveBroker
from tests.bad_input.raw import RawClient, decode_answer, framed, request_payload, wait_until
from tests.bad_input.requests import INT32_MAX, batch, create_topic, fetch, produce, produce_codes, record

METADATA_VERSION = 9
SIZE = struct.Struct(">i")


class Watch:
    """The listener of a broker under a clock that the test moves on."""

    def __init__(self, broker: LiveBroker) -> None:
        self._broker = broker
        self.listener: Listener = broker.app._listeners[0]
        self._shift_seconds = 0.0
        self.listener.monotonic = lambda: time.monotonic() + self._shift_seconds
        self.look()

    def look(self) -> None:
        self._broker.on_loop(self.listener.look_after)

    def pass_seconds(self, seconds: float) -> None:
        self._shift_seconds += seconds
        self.look()

    def connection(self, client: RawClient) -> Connection:
        """The broker's end of the client's connection."""
        (found,) = wait_until(
            lambda: [one for one in list(self.listener._connections) if is_of(one, client)], "it is there"
        )
        return found


def is_of(connection: Connection, client: RawClient) -> bool:
    return bool(connection._transport.get_extra_info("peername") == client.socket.getsockname())


@pytest.fixture
def lone_broker(start_broker: StartBroker) -> Iterator[LiveBroker]:
    broker = start_broker()
    neighbour = Neighbour(broker)
    yield broker
    # Its connection may have been idle for longer than the broker allows, so only a new one counts here.
    neighbour.close()
    with RawClient(broker.port) as client:
        neighbour.round_trip(client)


def test_a_claimed_size_costs_nothing_until_bytes_come(broker: LiveBroker) -> None:
    with RawClient(broker.port) as client:
        client.send_bytes(SIZE.pack(100_000_000) + bytes(50_000))
        watch = Watch(broker)
        connection = watch.connection(client)
        wait_until(lambda: connection._frames.buffered_bytes == 50_004, "the bytes have come")
        assert connection._frames.capacity_bytes < 250_000


def test_a_request_that_stops_in_the_middle(lone_broker: LiveBroker) -> None:
    with RawClient(lone_broker.port) as client:
        client.send_bytes(SIZE.pack(100_000_000) + b"x")
        watch = Watch(lone_broker)
        wait_until(lambda: watch.connection(client)._frames.buffered_bytes, "the bytes have come")
        watch.look()
        watch.pass_seconds(STALLED_SECONDS_MAX - 1)
        assert watch.listener.connection_count == 2
        watch.pass_seconds(2)
        client.assert_closed()


def test_a_trickle_is_no_progress_but_a_slow_upload_is(lone_broker: LiveBroker) -> None:
    with RawClient(lone_broker.port) as trickle, RawClient(lone_broker.port) as upload:
        trickle.send_bytes(SIZE.pack(100_000_000))
        upload.send_bytes(SIZE.pack(100_000_000))
        watch = Watch(lone_broker)
        for second in range(1, 50):
            trickle_bytes, upload_bytes = b"x", bytes(100)
            try:
                trickle.send_bytes(trickle_bytes)
            except (ConnectionResetError, BrokenPipeError):
                break
            upload.send_bytes(upload_bytes)
            arrived = {4 + second, 4 + 100 * second}
            wait_until(
                lambda arrived=arrived: arrived <= buffered(watch) or len(watch.listener._connections) < 3,
                "the bytes have come",
            )
            watch.pass_seconds(1)
        assert 28 <= second <= 34
        assert any(size_bytes > 2500 for size_bytes in buffered(watch))


def buffered(watch: Watch) -> set[int]:
    return {connection._frames.buffered_bytes for connection in list(watch.listener._connections)}


def test_a_waiting_request_does_not_count_as_stalled(lone_broker: LiveBroker) -> None:
    """A long poll with half of the next request behind it: it is the broker's turn."""
    with RawClient(lone_broker.port) as client:
        client.send(fetch(Neighbour.TOPIC, max_wait_ms=INT32_MAX), 12)
        client.send_bytes(SIZE.pack(1000) + bytes(100))
        watch = Watch(lone_broker)
        wait_until(lambda: watch.connection(client).in_flight, "the fetch waits")
        watch.look()
        watch.pass_seconds(STALLED_SECONDS_MAX * 3)
        with Neighbour(lone_broker) as neighbour:
            neighbour.round_trip()
        assert client.read_frame() is not None


def test_an_idle_connection(start_broker: StartBroker) -> None:
    broker = start_broker({"connections.max.idle.ms": "600000"})
    with RawClient(broker.port) as client, RawClient(broker.port) as busy:
        for each in (client, busy):
            each.call(MetadataRequest(topics=[]), METADATA_VERSION)
        watch = Watch(broker)
        watch.pass_seconds(590)
        busy.call(MetadataRequest(topics=[]), METADATA_VERSION)
        watch.pass_seconds(20)
        client.assert_closed()
        busy.call(MetadataRequest(topics=[]), METADATA_VERSION)


def test_idle_connections_may_stay_for_ever(start_broker: StartBroker) -> None:
    broker = start_broker({"connections.max.idle.ms": "-1"})
    with RawClient(broker.port) as client:
        client.call(MetadataRequest(topics=[]), METADATA_VERSION)
        Watch(broker).pass_seconds(1e9)
        client.call(MetadataRequest(topics=[]), METADATA_VERSION)


def send_until_blocked(client: RawClient, data: bytes) -> int:
    """Send the same bytes again and again until the broker has taken none for a while."""
    client.socket.settimeout(0.5)
    sent = 0
    try:
        while True:
            sent += client.socket.send(data)
    except TimeoutError:
        return sent
    finally:
        client.socket.settimeout(20)


def test_ten_thousand_requests_of_a_client_that_never_reads(lone_broker: LiveBroker) -> None:
    with ExitStack() as stack:
        client = stack.enter_context(RawClient(lone_broker.port, receive_buffer_bytes=4096))
        request = framed(request_payload(MetadataRequest(topics=[]), METADATA_VERSION))
        assert send_until_blocked(client, request * 10_000) >= 10_000 * len(request)
        watch = Watch(lone_broker)
        connection = watch.connection(client)
        wait_until(lambda: connection._write_paused and not connection._reading, "nobody reads")
        assert connection.unsent_bytes < WRITE_BUFFER_BYTES_MAX + 100_000
        assert connection._frames.capacity_bytes < 1_000_000
        with Neighbour(lone_broker) as neighbour:
            neighbour.check()
        watch.look()
        # The kernel may still have found room for some more of the answers, which counts as progress, but not twice.
        for _ in range(3):
            watch.pass_seconds(STALLED_SECONDS_MAX + 1)
        assert connection.closed
        wait_until(lambda: connection not in watch.listener._connections, "it is forgotten")


def test_a_slow_reader_is_not_cut_off(lone_broker: LiveBroker) -> None:
    """One that takes minutes for an answer, but takes some of it all the time."""
    with RawClient(lone_broker.port) as client, RawClient(lone_broker.port, receive_buffer_bytes=4096) as slow:
        create_topic(client, "large")
        for _ in range(16):
            produced = client.call(produce("large", batch(record(bytes(1_000_000)))), 12)
            assert produce_codes(produced) == [0]
        slow.send(fetch("large", max_bytes=INT32_MAX, partition_max_bytes=INT32_MAX), 12)
        watch = Watch(lone_broker)
        connection = watch.connection(slow)
        wait_until(lambda: connection._write_paused, "the answer fills the buffers")
        (left,) = SIZE.unpack(slow.read_bytes(4))
        assert left > 16_000_000
        while left:
            before = connection.unsent_bytes
            left -= len(slow.read_bytes(min(left, 3_000_000)))
            wait_until(
                lambda before=before: not before or connection.unsent_bytes < before,
                "the broker goes on writing",
            )
            watch.pass_seconds(STALLED_SECONDS_MAX - 5)
        assert not connection.closed


def test_ten_thousand_requests_are_answered_in_order(broker: LiveBroker) -> None:
    count = 10_000
    request = MetadataRequest(topics=[])
    with RawClient(broker.port) as client:
        payload = b"".join(
            framed(request_payload(request, METADATA_VERSION, correlation_id=number)) for number in range(count)
        )
        client.send_bytes(payload)
        for number in range(count):
            answer = client.read_frame()
            assert answer is not None
            assert decode_answer(answer, ApiKey.METADATA, METADATA_VERSION)[0] == number


def test_a_flood_of_requests_leaves_others_their_turn(broker: LiveBroker, shared_neighbour: Neighbour) -> None:
    """A buffer that a large request has made large would take in thousands of small ones at once."""
    small = framed(request_payload(MetadataRequest(topics=[]), METADATA_VERSION))
    large = framed(request_payload(MetadataRequest(topics=[]), METADATA_VERSION) + bytes(8_000_000))
    with RawClient(broker.port) as client:
        client.send_bytes(large)
        assert client.read_frame() is not None
        send_until_blocked(client, small * 100_000)
        shared_neighbour.round_trip()


def open_until_refused(port: int, count: int) -> tuple[list[RawClient], int]:
    """Connections that are served, and the number of those that were accepted only to be closed."""
    served, refused = [], 0
    for _ in range(count):
        client = RawClient(port)
        try:
            client.send(MetadataRequest(topics=[]), METADATA_VERSION)
            answered = client.read_frame() is not None
        except (ConnectionResetError, BrokenPipeError):
            answered = False
        if answered:
            served.append(client)
        else:
            client.socket.close()
            refused += 1
    return served, refused


@contextmanager
def closing(clients: list[RawClient]) -> Iterator[None]:
    try:
        yield
    finally:
        for client in clients:
            client.socket.close()


@pytest.mark.parametrize("key", ["max.connections", "max.connections.per.ip"])
def test_more_connections_than_allowed(start_broker: StartBroker, key: str) -> None:
    broker = start_broker({key: "5"})
    served, refused = open_until_refused(broker.port, 12)
    with closing(served):
        assert (len(served), refused) == (5, 7)
        served.pop().socket.close()
        wait_until(lambda: len(broker.app._listeners[0]._connections) == 4, "the broker has noticed")
        more, refused = open_until_refused(broker.port, 2)
        with closing(more):
            assert (len(more), refused) == (1, 1)
        for client in served:
            client.call(MetadataRequest(topics=[]), METADATA_VERSION)


def test_an_address_with_a_limit_of_its_own(start_broker: StartBroker) -> None:
    broker = start_broker({"max.connections.per.ip": "100", "max.connections.per.ip.overrides": "127.0.0.1:2"})
    served, refused = open_until_refused(broker.port, 5)
    with closing(served):
        assert (len(served), refused) == (2, 3)


def test_more_connections_per_second_than_allowed(start_broker: StartBroker) -> None:
    broker = start_broker({"max.connection.creation.rate": "10"})
    listener = broker.app._listeners[0]
    now = time.monotonic()
    listener.monotonic = lambda: now
    served, refused = open_until_refused(broker.port, 15)
    with closing(served):
        assert (len(served), refused) == (10, 5)
        listener.monotonic = lambda: now + 1
        more, refused = open_until_refused(broker.port, 10)
        with closing(more):
            assert (len(more), refused) == (10, 0)


def test_no_file_descriptors_left() -> None:
    """The broker neither dies nor spins, serves those whom it knows, and accepts again once it can."""
    with Broker(subprocess=True) as broker, ExitStack() as stack:
        process = psutil.Process(broker.pid)
        port = int(broker.bootstrap_servers.rpartition(":")[2])
        known = stack.enter_context(RawClient(port))
        create_topic(known, "known")
        assert produce_codes(known.call(produce("known", batch()), 12)) == [0]
        limit = process.num_fds() + 20
        _, hard_limit = resource.prlimit(broker.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (limit, hard_limit))
        crowd = [RawClient(port) for _ in range(100)]
        with closing(crowd):
            assert produce_codes(known.call(produce("known", batch()), 12)) == [0]
            before = sum(process.cpu_times()[:2])
            time.sleep(1)
            assert sum(process.cpu_times()[:2]) - before < 0.5
            assert produce_codes(known.call(produce("known", batch()), 12)) == [0]
        wait_until(served_again(port), "new connections are served")


def served_again(port: int) -> Callable[[], bool]:
    def try_once() -> bool:
        try:
            with RawClient(port) as client:
                client.socket.settimeout(2)
                client.send(MetadataRequest(topics=[]), METADATA_VERSION)
                return client.read_frame() is not None
        except (ConnectionError, TimeoutError):
            return False

    return try_once
