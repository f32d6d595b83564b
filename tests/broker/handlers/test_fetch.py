"""Fetch by readers of committed records."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.records.record import iter_records
from tests.bad_input.live import LiveBroker
from tests.bad_input.raw import RawClient, wait_until
from tests.bad_input.requests import FETCH_VERSION, create_topic, fetch, fetch_codes, record
from tests.transactions.wire_producer import TxnProducer

READ_COMMITTED = 1
WAIT_MS = 600_000


def test_a_damaged_index_of_aborted_transactions_concerns_its_partition_alone(tmp_path: Path) -> None:
    broker = LiveBroker(tmp_path)
    with RawClient(broker.port) as client:
        for topic in ("bad", "good"):
            create_topic(client, topic)
        producer = TxnProducer(client)
        assert producer.send("bad") == 0
        assert producer.end(commit=False) == 0
        assert producer.send("bad") == 0
        assert producer.send("good", record(b"hello")) == 0
        assert producer.end() == 0
    broker.stop()
    (index,) = (tmp_path / "bad-0").glob("*.txnindex")
    index.write_bytes(index.read_bytes()[:-1])
    broker = LiveBroker(tmp_path)
    with RawClient(broker.port) as client:
        request = fetch("bad", isolation_level=READ_COMMITTED)
        request.topics += fetch("good").topics
        answer = client.call(request, FETCH_VERSION)
        assert fetch_codes(answer) == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]
        (good,) = answer.responses[1].partitions
        assert [found.value for found in iter_records(memoryview(good.records))] == [b"hello"]
        # Who reads everything has no use for the index.
        assert fetch_codes(client.call(fetch("bad"), FETCH_VERSION)) == [ErrorCode.NONE]
    broker.stop()


@pytest.mark.parametrize("flush_on_ack", ["false", "true"])
def test_a_commit_wakes_a_long_poll_that_its_records_could_not_satisfy(tmp_path: Path, flush_on_ack: str) -> None:
    broker = LiveBroker(tmp_path, {"log.flush.on.ack": flush_on_ack})
    with RawClient(broker.port) as client, RawClient(broker.port) as reader:
        create_topic(client, "t")
        partition = broker.partition("t")
        producer = TxnProducer(client)
        request = fetch("t", isolation_level=READ_COMMITTED, min_bytes=1000, max_wait_ms=WAIT_MS)
        sent = reader.send(request, FETCH_VERSION)
        (first,) = wait_until(lambda: broker.on_loop(lambda: set(partition.fetch_waiters)), "somebody waits")
        assert producer.send("t", record(bytes(10_000))) == 0
        wait_until(lambda: broker.on_loop(lambda: partition.fetch_waiters - {first}), "it has looked and waits anew")
        assert producer.end() == 0
        (data,) = reader.read_answer(request, FETCH_VERSION, sent).responses[0].partitions
        assert len(data.records) > 10_000
    broker.stop()
