"""What `--log-level debug` adds, and that it costs nothing while it is off."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
import time

import pytest
from confluent_kafka import Consumer, Producer

from oncelog.broker.base.immediate_future import Promise
from oncelog.broker.handlers import APIS, metadata
from oncelog.broker.requests.context import NO_REPLY
from oncelog.broker.server import listener
from oncelog.broker.server.request_log import log_requests
from oncelog.client.admin import Admin
from oncelog.client.cluster import Cluster
from oncelog.client.errors import UnknownTopic
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from oncelog.testing import Broker

pytestmark = pytest.mark.usefixtures("quick_ticks")

LINE = re.compile(
    r"request (\w+) v\d+: peer=127\.0\.0\.1:\d+ client_id='(\S*)' request_bytes=(\d+) response_bytes=(\d+) "
    r"duration_ms=\d+\.\d\d error=(.+)"
)


@pytest.fixture
def quick_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "TICK_SECONDS", 0.05)


def requests(caplog: pytest.LogCaptureFixture) -> list[tuple[str, ...]]:
    """API, client id, sizes and error of each request that was logged."""
    found = [LINE.fullmatch(message) for message in caplog.messages]
    return [match.groups() for match in found if match]


def test_each_request_has_a_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="oncelog")
    with Broker() as broker, Cluster(broker.bootstrap_servers, client_id="me") as cluster:
        Admin(cluster).create_topic("orders")
        with pytest.raises(UnknownTopic):
            Admin(cluster).delete_topic("nobody")
    told = requests(caplog)
    assert {client for _, client, *_ in told} == {"me"}
    assert ("CreateTopics", "none") in [(api, error) for api, *_, error in told]
    assert ("DeleteTopics", "UNKNOWN_TOPIC_OR_PARTITION") in [(api, error) for api, *_, error in told]
    assert all(int(sent) > 0 for _, _, _, sent, _ in told)
    assert any(message.startswith("connection opened: peer=127.0.0.1:") for message in caplog.messages)
    assert any(message.startswith("connection closed: peer=127.0.0.1:") for message in caplog.messages)
    assert any(re.fullmatch(r"metadata revision \d+ changes /topics/orders", each) for each in caplog.messages)


def test_groups_transactions_and_segments_are_followed(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="oncelog")
    with Broker() as broker:
        settings = {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0}
        with Cluster(broker.bootstrap_servers) as cluster:
            Admin(cluster).create_topic("orders", configs={"segment.bytes": str(2**20)})
        producer = Producer(settings | {"transactional.id": "id"})
        producer.init_transactions(30)
        producer.begin_transaction()
        for _ in range(3):
            producer.produce("orders", b"x" * 600_000)
            producer.flush(30)
        producer.commit_transaction(30)
        for protocol in ("classic", "consumer"):
            consumer = Consumer(
                settings | {"group.id": protocol, "group.protocol": protocol, "auto.offset.reset": "earliest"}
            )
            consumer.subscribe(["orders"])
            assert consumer.poll(30) is not None
            consumer.close()
    for expected in (
        r"transactional id id: EMPTY -> ONGOING, producer \d+, epoch \d+",
        r"transactional id id: ONGOING -> PREPARE_COMMIT, producer \d+, epoch \d+",
        r"group classic: PreparingRebalance -> CompletingRebalance in generation 1",
        r"group classic: CompletingRebalance -> Stable in generation 1",
        r"group consumer: member \S+ is in epoch \d+, STABLE",
        r".*orders-0: rolled a new segment at offset \d+",
    ):
        assert any(re.fullmatch(expected, message) for message in caplog.messages), expected


def test_records_have_no_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="oncelog")
    with Broker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 1000, "log_level": 0})
        for _ in range(10_000):
            producer.produce("orders", b"value")
        producer.flush(30)
    assert len([record for record in caplog.records if record.name.startswith("oncelog.")]) < 300


def test_handlers_are_wrapped_only_while_the_level_is_on(caplog: pytest.LogCaptureFixture) -> None:
    """The level can be changed in a running broker, by a client as well (KIP-412)."""
    with Broker() as broker, Cluster(broker.bootstrap_servers) as cluster:
        app = broker._running_broker()._app  # type: ignore[attr-defined]
        dispatcher = app._listeners[0]._dispatcher

        def handler_after(level: int) -> object:
            caplog.set_level(level, logger="oncelog")
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline:
                cluster.refresh([])
                route = dispatcher._routes.get(ApiKey.METADATA)
                if route is not None and (route.handle is metadata.handle) == (level > logging.DEBUG):
                    return route.handle
                time.sleep(0.01)
            return None

        assert handler_after(logging.INFO) is metadata.handle
        assert requests(caplog) == []
        assert handler_after(logging.DEBUG) not in (metadata.handle, None)
        cluster.refresh([])
        assert requests(caplog)[-1][0] == "Metadata"
        assert handler_after(logging.INFO) is metadata.handle


class FakePeer:
    peer_address = "127.0.0.1:1"


class FakeContext:
    version = 3
    client_id = "me"
    peer = FakePeer()


def test_every_kind_of_answer(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="oncelog")
    answer = EndTxnResponse(error_code=ErrorCode.INVALID_TXN_STATE)

    async def in_a_coroutine() -> EndTxnResponse:
        return answer

    def run(result: object) -> object:
        def handle(_: object, __: object) -> object:
            if isinstance(result, Exception):
                raise result
            return result

        return log_requests(APIS[ApiKey.END_TXN], handle)(EndTxnRequest(), FakeContext())  # type: ignore[arg-type]

    promise: Promise[EndTxnResponse] = Promise()
    assert run(answer) is answer
    assert run(NO_REPLY) is NO_REPLY
    coroutine = run(in_a_coroutine())
    with pytest.raises(StopIteration):
        coroutine.send(None)  # type: ignore[attr-defined]
    assert run(promise) is promise
    promise.set_result(answer)
    with pytest.raises(KafkaError):
        run(KafkaError(ErrorCode.NOT_COORDINATOR, "elsewhere"))
    with pytest.raises(ZeroDivisionError):
        run(ZeroDivisionError("bug"))
    assert [error for *_, error in requests(caplog)] == [
        "INVALID_TXN_STATE",
        "none expected",
        "INVALID_TXN_STATE",
        "INVALID_TXN_STATE",
        "NOT_COORDINATOR (elsewhere)",
        "ZeroDivisionError('bug')",
    ]


def test_settings_are_shown_at_the_start_but_no_passwords() -> None:
    options = ["-o", "num.partitions=7", "-o", "ssl.key.password=secret", "--data", "/dev/null"]
    command = [sys.executable, "-m", "oncelog.cli.main", "serve", "--log-level", "debug", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "setting num.partitions=7 from -o num.partitions\n" in done.stderr
    assert "secret" not in done.stderr
