"""`oncelog txns` on transactions that are open, ended, and hanging."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import KafkaException, Producer

from oncelog.cli.durations import duration_text
from oncelog.cli.main import main
from oncelog.testing import Broker
from tests.bad_input.raw import RawClient
from tests.bad_input.requests import create_topic
from tests.transactions.direct_batches import open_hanging_transaction
from tests.transactions.wire_producer import NEW, OLD, TxnProducer, port_of


class Result(NamedTuple):
    code: int
    out: str
    err: str


class Txns:
    def __init__(self, broker: Broker, capfd: pytest.CaptureFixture[str]) -> None:
        self._address = broker.bootstrap_servers
        self._capfd = capfd

    def __call__(self, *words: str) -> Result:
        self._capfd.readouterr()
        code = main(["txns", *words, "-b", self._address])
        return Result(code, *self._capfd.readouterr())


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """One that lets transactions hang, as brokers before KIP-890 do."""
    with Broker({"transaction.partition.verification.enable": False}) as broker:
        yield broker


@pytest.fixture
def txns(broker: Broker, capfd: pytest.CaptureFixture[str]) -> Txns:
    return Txns(broker, capfd)


def begin(broker: Broker, transactional_id: str, topic: str, client_id: str = "rdkafka") -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "transactional.id": transactional_id,
            "client.id": client_id,
            "log_level": 0,
        }
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"x")
    assert producer.flush(30) == 0
    return producer


def test_list_and_its_filters(broker: Broker, txns: Txns) -> None:
    begin(broker, "list-done", "list").commit_transaction(30)
    producer = begin(broker, "list-open", "list")
    listed = json.loads(txns("list", "--match", "list-.*", "--json").out)
    assert [(txn["transactional_id"], txn["state"]) for txn in listed] == [
        ("list-done", "CompleteCommit"),
        ("list-open", "Ongoing"),
    ]
    assert re.search(r"list-open +Ongoing +\d+ +1\n", txns("list", "--state", "Ongoing").out)
    assert txns("list", "--match", "list-.*", "--longer-than", "600").out == "There are no such transactions.\n"
    wrong = txns("list", "--state", "Sleeping")
    assert wrong.code == 1
    assert wrong.err.startswith(
        "oncelog txns: INVALID_REQUEST: there is no state 'Sleeping'; there are Empty, Ongoing,"
    )
    producer.abort_transaction(30)


@pytest.mark.parametrize("pattern", ["(", r"(a)\1", "(?=a)", "x" * 10_000])
def test_a_pattern_that_is_none(txns: Txns, pattern: str) -> None:
    refused = txns("list", "--match", pattern)
    assert refused.code == 1
    assert refused.err.startswith("oncelog txns: INVALID_REGULAR_EXPRESSION:")
    assert "google-re2" in refused.err


def test_a_pattern_on_a_broker_without_the_engine(txns: Txns, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    refused = txns("list", "--match", "anything")
    assert (refused.code, "lacks the package google-re2" in refused.err) == (1, True)
    assert txns("list").code == 0


def test_a_pattern_that_would_take_for_ever(broker: Broker, txns: Txns) -> None:
    """The engine is linear: a backtracking one would not come back from this."""
    name = "a" * 200 + "b"
    begin(broker, name, "list").commit_transaction(30)
    assert txns("list", "--match", "(a+)+").out == "There are no such transactions.\n"
    assert json.loads(txns("list", "--match", "(a+)+b", "--json").out)[0]["transactional_id"] == name


def test_describe(broker: Broker, txns: Txns) -> None:
    producer = begin(broker, "described", "describe")
    described = txns("describe", "described").out
    assert "described: Ongoing\n" in described
    assert "  partitions  describe:0\n" in described
    assert "  timeout     1m\n" in described
    producer.abort_transaction(30)
    assert "CompleteAbort" in txns("describe", "described").out
    unknown = txns("describe", "nobody")
    assert (unknown.code, unknown.err) == (
        1,
        "oncelog txns: TRANSACTIONAL_ID_NOT_FOUND: there is no transactional id 'nobody'; "
        "oncelog txns list shows those that exist\n",
    )


def test_why_stuck_names_the_transaction_that_holds_readers_up(broker: Broker, txns: Txns) -> None:
    begin(broker, "stuck-done", "stuck").commit_transaction(30)
    free = txns("why-stuck", "stuck")
    assert (free.code, free.out) == (
        0,
        "Nothing is held up: every reader can reach the end of stuck (partition 0 at 2).\n",
    )
    producer = begin(broker, "stuck-open", "stuck", client_id="holder")
    begin(broker, "stuck-behind", "stuck").commit_transaction(30)
    stuck = txns("why-stuck", "stuck:0")
    assert stuck.code == 1
    assert "stuck:0 is readable up to 2, its end is 5: 3 offsets held back" in stuck.out
    assert "held by     stuck-open (Ongoing), since offset 2\n" in stuck.out
    assert re.search(r"  client      127\.0\.0\.1:\d+, client\.id 'holder'\n", stuck.out)
    assert "oncelog txns abort stuck-open\n" in stuck.out
    (told,) = json.loads(txns("why-stuck", "stuck", "--json").out)
    assert told["held_back"] == 3
    holder = told["open_transactions"][0]["transaction"]
    assert (holder["transactional_id"], holder["client_id"]) == ("stuck-open", "holder")
    aborted = txns("abort", "stuck-open")
    assert aborted.code == 0
    assert "Aborted the transaction of stuck-open in 1 partition" in aborted.out
    assert txns("why-stuck", "stuck").code == 0
    with pytest.raises(KafkaException):
        producer.commit_transaction(30)


@pytest.mark.parametrize("generation", [OLD, NEW], ids=["v1", "v2"])
def test_after_a_restart_the_client_is_unknown_until_it_goes_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], generation: int
) -> None:
    seen = r"  client      127\.0\.0\.1:\d+, client\.id 'raw'\n"
    unknown = "  client      unknown (before the last restart)\n"
    with Broker(data_dir=tmp_path) as broker:
        txns = Txns(broker, capfd)
        with RawClient(port_of(broker)) as client:
            create_topic(client, "a")
            create_topic(client, "b")
            producer = TxnProducer(client, generation, "survivor")
            assert producer.send("a") == 0
            assert re.search(seen, txns("why-stuck", "a").out)
        broker.restart()
        assert unknown in txns("why-stuck", "a").out
        assert unknown in txns("describe", "survivor").out
        with RawClient(port_of(broker)) as client:
            producer.client = client
            assert producer.send("b") == 0
            assert re.search(seen, txns("why-stuck", "a").out)
            assert producer.end() == 0


def test_a_producer_without_a_transaction_is_left_alone(broker: Broker, txns: Txns) -> None:
    producer = begin(broker, "healthy", "healthy")
    for end, state in ((producer.commit_transaction, "CompleteCommit"), (producer.abort_transaction, "CompleteAbort")):
        end(30)
        before = txns("describe", "healthy").out
        assert txns("abort", "healthy") == (
            1,
            "",
            f"oncelog txns: INVALID_TXN_STATE: 'healthy' has no open transaction (its state is {state}); nothing was "
            "aborted, and its producer is not fenced\n",
        )
        assert txns("describe", "healthy").out == before
        producer.begin_transaction()
        producer.produce("healthy", b"x")
        assert producer.flush(30) == 0
    producer.commit_transaction(30)


def test_one_that_hangs_is_found_and_aborted(broker: Broker, txns: Txns) -> None:
    begin(broker, "hanging-done", "hanging").commit_transaction(30)
    producer_id = open_hanging_transaction(broker.bootstrap_servers, "hanging", 0, age_ms=7_500_000)
    stuck = txns("why-stuck", "hanging")
    assert stuck.code == 1
    assert f"held by     producer {producer_id}, epoch 0, since offset 2\n" in stuck.out
    assert "last write  2h 5m ago" in stuck.out
    assert "oncelog txns abort hanging:0 --start-offset 2\n" in stuck.out
    assert txns("abort", "hanging:0", "--start-offset", "1").code == 1
    assert txns("abort", "hanging:0", "--start-offset", "2").out == (
        f"Aborted the transaction of producer {producer_id} in hanging:0.\n"
    )
    assert txns("why-stuck", "hanging").code == 0


def test_wrong_usage(txns: Txns) -> None:
    assert "is not TOPIC or TOPIC:PARTITION" in txns("why-stuck", "topic:x").err
    assert "has no partition" in txns("abort", "topic", "--start-offset", "3").err
    assert "there is no topic 'nothing'" in txns("why-stuck", "nothing").err


def test_durations() -> None:
    minute, hour = 60_000, 3_600_000
    durations = (400, 12_000, 90_000, 2 * hour + 5 * minute, 24 * hour, 49 * hour + 60_000)
    assert [duration_text(duration) for duration in durations] == ["0.4s", "12s", "1m 30s", "2h 5m", "1d", "2d 1h"]
