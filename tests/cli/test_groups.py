"""`oncelog groups` on a group that has read a transactional topic."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer

from oncelog.cli.main import main
from oncelog.testing import Broker

RECORDS_PER_TRANSACTION = 10


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """Three transactions in a topic, and a group that has read all of it and left."""
    with Broker() as running:
        producer = Producer(
            {"bootstrap.servers": running.bootstrap_servers, "transactional.id": "writer", "log_level": 0}
        )
        producer.init_transactions(30)
        for outcome in ("commit", "abort", "commit"):
            producer.begin_transaction()
            for _ in range(RECORDS_PER_TRANSACTION):
                producer.produce("orders", b"x")
            if outcome == "commit":
                producer.commit_transaction(30)
            else:
                producer.flush(30)
                producer.abort_transaction(30)
        read(running, 2 * RECORDS_PER_TRANSACTION).close()
        yield running


def read(broker: Broker, count: int) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.subscribe(["orders"])
    while count:
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        count -= 1
    consumer.commit(asynchronous=False)
    return consumer


def run(broker: Broker, *arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main(["groups", *arguments, "-b", broker.bootstrap_servers])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_list(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(broker, "list", capsys=capsys)
    assert code == 0
    assert out.splitlines()[1].split() == ["readers", "classic", "Empty", "consumer"]


@pytest.mark.parametrize(("offset", "lag"), [(32, 0), (31, 1), (11, 10), (0, 20)])
def test_the_lag_is_not_distorted_by_markers(
    broker: Broker, capsys: pytest.CaptureFixture[str], offset: int, lag: int
) -> None:
    """Offsets 10, 21 and 32 are markers, 11 to 20 were aborted, and the log ends at 33."""
    run(broker, "reset", "readers", "--to", str(offset), "--execute", capsys=capsys)
    code, out, _ = run(broker, "describe", "readers", "--json", capsys=capsys)
    assert code == 0
    described = json.loads(out)
    assert described["positions"][0]["end_offset"] == 33
    assert described["lag"] == lag


def test_a_reset_shows_before_it_does(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    _, before, _ = run(broker, "describe", "readers", "--json", capsys=capsys)
    code, out, _ = run(broker, "reset", "readers", "--to", "earliest", capsys=capsys)
    assert code == 0
    assert "--execute" in out
    _, after, _ = run(broker, "describe", "readers", "--json", capsys=capsys)
    assert after == before


@pytest.mark.parametrize(
    ("option", "offset"),
    [(("--to", "earliest"), 0), (("--to", "7"), 7), (("--to", "latest"), 33), (("--by", "1h"), 0), (("--to", "@1"), 0)],
)
def test_a_reset_moves_the_group(
    broker: Broker, capsys: pytest.CaptureFixture[str], option: tuple[str, str], offset: int
) -> None:
    code, out, _ = run(broker, "reset", "readers", *option, "--execute", "--json", capsys=capsys)
    assert code == 0
    assert json.loads(out)["offsets"][0]["to"] == offset
    _, described, _ = run(broker, "describe", "readers", "--json", capsys=capsys)
    assert json.loads(described)["positions"][0]["committed_offset"] == offset


def test_a_reset_by_a_number_of_offsets(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    run(broker, "reset", "readers", "--to", "20", "--execute", capsys=capsys)
    code, out, _ = run(broker, "reset", "readers", "--by", "-5", "--execute", "--json", capsys=capsys)
    assert code == 0
    assert json.loads(out)["offsets"] == [{"topic": "orders", "partition": 0, "from": 20, "to": 15}]


@pytest.mark.parametrize("time", ["1969-12-31T23:59:59.999+00:00", "1969-12-31T23:59:59.998+00:00"])
def test_a_time_before_1970_is_the_beginning(broker: Broker, capsys: pytest.CaptureFixture[str], time: str) -> None:
    """In Kafka's protocol the times -1 and -2 stand for the end and the beginning."""
    code, out, _ = run(broker, "reset", "readers", "--to", time, "--json", capsys=capsys)
    assert code == 0
    assert json.loads(out)["offsets"][0]["to"] == 0


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("reset", "readers"), 2, "--to or --by"),
        (("reset", "readers", "--to", "yesterday"), 2, "yesterday"),
        (("reset", "readers", "--by", "soon"), 2, "soon"),
        (("reset", "strangers", "--to", "earliest"), 2, "--topic"),
        (("describe", "strangers"), 1, "there is no group 'strangers'; oncelog groups list"),
        (("delete", "strangers"), 1, "GROUP_ID_NOT_FOUND"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    broker: Broker, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int, says: str
) -> None:
    found, out, err = run(broker, *arguments, capsys=capsys)
    assert found == code
    assert out == ""
    assert len(err.splitlines()) == 1
    assert says in err


def test_a_group_with_members_is_neither_reset_nor_deleted(capsys: pytest.CaptureFixture[str]) -> None:
    with Broker() as running:
        producer = Producer({"bootstrap.servers": running.bootstrap_servers, "log_level": 0})
        producer.produce("orders", b"x")
        producer.flush(30)
        consumer = read(running, 1)
        code, _, err = run(running, "reset", "readers", "--to", "earliest", "--execute", capsys=capsys)
        assert code == 1
        assert "has members" in err
        # Nor is it shown what cannot be done.
        assert run(running, "reset", "readers", "--to", "earliest", capsys=capsys) == (
            1,
            "",
            "oncelog groups: NON_EMPTY_GROUP: group 'readers' has members; stop its consumers first\n",
        )
        code, _, err = run(running, "delete", "readers", capsys=capsys)
        assert code == 1
        assert "NON_EMPTY_GROUP" in err
        consumer.close()
        assert run(running, "delete", "readers", capsys=capsys)[0] == 0
