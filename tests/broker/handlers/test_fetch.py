"""Fetch by readers of committed records."""

from __future__ import annotations

from pathlib import Path

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.records.record import iter_records
from tests.bad_input.live import LiveBroker
from tests.bad_input.raw import RawClient
from tests.bad_input.requests import FETCH_VERSION, create_topic, fetch, fetch_codes, record
from tests.transactions.wire_producer import TxnProducer

READ_COMMITTED = 1


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
