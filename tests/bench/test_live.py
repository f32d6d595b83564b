"""The works against real peers for a moment each: what they report is complete, and nothing is left behind."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bench import warmup
from bench.case import Case
from bench.clients import confluent, wire
from bench.clients.confluent import ClientError
from bench.clients.java_transactions import JavaTransactions
from bench.peers import Pool
from bench.peers.base import Peer
from bench.works.biglog import Filling, LogSizeCase, RecoveryCase
from bench.works.consume import ConsumeCase
from bench.works.growth import IdleConnectionsCase
from bench.works.latency import EndToEnd, ProduceLatency
from bench.works.produce import ProduceCase
from bench.works.requests import ConnectionsCase, SmallRequestsCase
from bench.works.saturate import SaturateCase, SaturateFetchCase
from bench.works.transactions import ConfluentTransactions, JavaTransactionsCase
from bench.works.transform import TransformCase
from conformance.reference.jars import missing

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
    "latency on the floor with fsync": (ProduceLatency(), "floor-fsync"),
    "end to end": (EndToEnd(), "oncelog"),
    "transactions": (ConfluentTransactions(3, peer_warmup=32), "oncelog"),
    "transform": (TransformCase(10, peer_warmup=0), "oncelog"),
    "connections": (ConnectionsCase(20), "oncelog"),
    "connections to the floor": (ConnectionsCase(20), "floor"),
    "small fetch": (SmallRequestsCase("fetch"), "oncelog"),
    "small list offsets": (SmallRequestsCase("list offsets"), "oncelog"),
    "saturate": (SaturateCase(1000), "oncelog"),
    "saturate by fetches": (SaturateFetchCase(), "oncelog"),
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


def _await_stopped(stopped: Peer, running: Peer) -> None:
    """A signal takes a moment."""
    while _is_stopped(running) or not _is_stopped(stopped):
        time.sleep(0.001)


def _is_stopped(peer: Peer) -> bool:
    return Path(f"/proc/{peer.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_one_peer_runs_at_a_time_and_a_paused_one_can_be_closed() -> None:
    with closing(Pool()) as pool:
        first, second = pool.get("oncelog"), pool.get("floor")
        pool.leave_alone("oncelog")
        _await_stopped(second, first)
        pool.leave_alone("floor")
        _await_stopped(first, second)
        assert wire.is_ready(second.bootstrap_servers)
        pool.pause_all()
        while not _is_stopped(second):
            time.sleep(0.001)


@pytest.mark.java
@pytest.mark.skipif(missing() is not None, reason=str(missing()))
class TestJava:
    def test_one_jvm_serves_all_rounds_of_a_case(self, pool: Pool) -> None:
        case, peer = JavaTransactionsCase(3, peer_warmup=0, jvm_warmup_s=0), pool.get("oncelog")
        try:
            case.prepare(peer, MOMENT_S)
            (driver,) = case.drivers.values()
            samples = [case.measure(peer, turn, MOMENT_S) for turn in range(2)]
            assert list(case.drivers.values()) == [driver]
        finally:
            case.finish(peer)
        assert case.drivers == {}
        for sample in samples:
            assert sample["transactions_per_s"] > 0
            assert sample["records_per_s"] == pytest.approx(3 * sample["transactions_per_s"])
            assert sample["client_cores"] > 0
            assert sample["p50_ms"] > 0

    def test_what_java_was_told_is_in_the_log(self, pool: Pool) -> None:
        peer = pool.get("oncelog")
        with confluent.topic(peer, "told", 1) as topic, closing(JavaTransactions(peer, "told")) as driver:
            assert len(driver.commit(topic, 4, 100, 0, transactions=5)) == 5
            # A marker follows the records of each transaction.
            assert wire.end_offset(peer.bootstrap_servers, topic) == 5 * (4 + 1)

    def test_what_java_throws_is_told(self, pool: Pool) -> None:
        with closing(JavaTransactions(pool.get("oncelog"), "thrown")) as driver:
            with pytest.raises(ClientError, match="InvalidTopicException"):
                driver.commit("no such topic", 1, 100, 0)
            with pytest.raises(ClientError, match="has ended"):
                driver.commit("told", 1, 100, 0)


def test_the_warm_up_by_transactions_comes_once_for_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    committed: list[int] = []

    def commit(peer: Peer, topic: str, transactional_id: str, count: int) -> None:
        committed.append(count)
        commit_really(peer, topic, transactional_id, count)

    commit_really = warmup.commit
    monkeypatch.setattr(warmup, "commit", commit)
    with closing(Pool()) as pool:
        peer = pool.get("oncelog")
        for _ in range(2):
            warmup.warm_up_transactions(peer, 400)
        assert sum(committed) == 32, "a twentieth, the same for each of sixteen producers"
        peer.stop()
        warmup.warm_up_transactions(pool.get("oncelog"), 400)
        assert sum(committed) == 64


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
        with pytest.raises(wire.WireError, match=r"ProduceResponse has errors \[2\]"):
            wire.check_answers(peer.bootstrap_servers, [wire.metadata_frame(topic), frame])


@pytest.mark.parametrize("name", ["oncelog", "floor"])
def test_nothing_is_left_of_a_deleted_topic_when_the_next_peer_has_its_turn(pool: Pool, name: str) -> None:
    peer = pool.get(name)
    with confluent.topic(peer, "doomed", 1) as topic:
        wire.drive(peer.bootstrap_servers, [[wire.produce_frame(topic, 0, wire.batch(1, 100))]], requests=1)
    peer.settle()
    assert not list(peer.directory.rglob("doomed*"))  # type: ignore[attr-defined]
