"""The works against real peers for a moment each: what they report is complete, and nothing is left behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.case import Case
from bench.clients import confluent, wire
from bench.peers import Pool
from bench.peers.base import Peer
from bench.works.biglog import Filling, LogSizeCase, RecoveryCase
from bench.works.consume import ConsumeCase
from bench.works.growth import IdleConnectionsCase
from bench.works.latency import EndToEnd, ProduceLatency
from bench.works.produce import ProduceCase
from bench.works.requests import ConnectionsCase, SmallRequestsCase
from bench.works.saturate import SaturateCase
from bench.works.transactions import TransactionsCase
from bench.works.transform import TransformCase

MOMENT_S = 0.1


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    pool = Pool()
    yield pool
    pool.close()


CASES: dict[str, tuple[Case, str]] = {
    "produce": (ProduceCase(100, 8), "oncelog"),
    "produce on the floor": (ProduceCase(1000, 8), "floor"),
    "consume": (ConsumeCase(1000, 8), "oncelog"),
    "latency": (ProduceLatency(), "oncelog"),
    "latency on the floor": (ProduceLatency(), "floor"),
    "end to end": (EndToEnd(), "oncelog"),
    "transactions": (TransactionsCase(3), "oncelog"),
    "transform": (TransformCase(10), "oncelog"),
    "connections": (ConnectionsCase(20), "oncelog"),
    "connections to the floor": (ConnectionsCase(20), "floor"),
    "small fetch": (SmallRequestsCase("fetch"), "oncelog"),
    "small list offsets": (SmallRequestsCase("list offsets"), "oncelog"),
    "saturate": (SaturateCase(1000), "oncelog"),
    "saturate the floor": (SaturateCase(1000), "floor"),
    "idle connections": (IdleConnectionsCase(30), "oncelog"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_work_reports_its_headline_and_what_it_cost(pool: Pool, name: str) -> None:
    case, peer_name = CASES[name]
    peer = pool.get(peer_name)
    case.prepare(peer, MOMENT_S)
    try:
        sample = case.measure(peer, 0, MOMENT_S)
    finally:
        case.finish(peer)
    assert sample[case.headline] > 0
    assert {"broker_cores", "client_cores", "rss_mb"} <= set(sample)
    assert all(value >= 0 for value in sample.values())


def test_a_log_grows_and_survives_kill_9() -> None:
    pool, filling = Pool(), Filling()
    try:
        peer = pool.get("oncelog")
        for case in (LogSizeCase(0.002, 0, ["oncelog"], filling), RecoveryCase(0.003, ["oncelog"], filling)):
            case.prepare(peer, MOMENT_S)
            assert case.measure(peer, 0, MOMENT_S)[case.headline] > 0
        directory = peer.directory  # type: ignore[attr-defined]
        assert directory.exists()
    finally:
        pool.close()
    assert not directory.exists()


def test_every_partition_is_filled_and_the_count_is_checked(pool: Pool) -> None:
    peer: Peer = pool.get("oncelog")
    with confluent.topic(peer, "filled", 3) as topic:
        count = wire.fill(peer.bootstrap_servers, topic, 3, 0.06, record_bytes=100, batch_bytes=10_000)
        offsets = wire.end_offsets(peer.bootstrap_servers, topic, 3)
    assert offsets == [200, 200, 200]
    assert count == 600


def test_an_answer_that_is_an_error_does_not_pass_for_work(pool: Pool) -> None:
    peer = pool.get("oncelog")
    with confluent.topic(peer, "refused", 1) as topic:
        damaged = bytearray(wire.batch(1, 100))
        damaged[-1] ^= 1
        frame = wire.produce_frame(topic, 0, bytes(damaged))
        driven = wire.drive(peer.bootstrap_servers, [[frame]], requests=5)
        assert driven.requests == 5
        assert wire.end_offset(peer.bootstrap_servers, topic) == 0
