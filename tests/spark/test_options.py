"""Options are refused with one line before anything is sent."""

from __future__ import annotations

import pytest

from oncelog.protocol.records.compression import Compression
from oncelog.spark import SinkError, exactly_once_sink
from oncelog.testing import Broker


def test_producer_settings_are_taken_under_sparks_names() -> None:
    settings = {
        "kafka.compression.type": "zstd",
        "kafka.batch.size": "1000",
        "kafka.transaction.timeout.ms": "60000",
        "kafka.acks": "all",
        "kafka.security.protocol": "PLAINTEXT",
    }
    options = exactly_once_sink("host:9092", transactional_id="t", topic="out", **settings).options
    assert options.compression is Compression.ZSTD
    assert (options.batch_size_bytes, options.transaction_timeout_ms) == (1000, 60000)
    assert options.group_id == "t"


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("kafka.acks", "1", "give up exactly-once"),
        ("kafka.enable.idempotence", "false", "give up exactly-once"),
        ("kafka.partitioner.ignore.keys", "true", "several partitions"),
        ("kafka.transaction.two.phase.commit.enable", "true", "only false is possible"),
        ("kafka.interceptor.classes", "com.example.Audit", "cannot call them"),
        ("kafka.compression.type", "lzma", "must be one of none, gzip"),
        ("kafka.batch.size", "many", "must be a whole number"),
        ("kafka.batch.size", "0", "must lie between"),
        ("kafka.transactional.id", "x", "give transactional_id"),
        ("kafka.bootstrap.servers", "x", "first argument"),
        ("kafka.no.such.thing", "x", "not a setting"),
        ("includeHeaders", "true", "no option 'includeHeaders'"),
    ],
)
def test_a_setting_that_cannot_be_kept_is_refused(name: str, value: str, words: str) -> None:
    with pytest.raises(SinkError, match=words):
        exactly_once_sink("host:9092", transactional_id="t", topic="out", **{name: value})


def test_settings_that_only_tune_javas_producer_are_accepted_with_a_note(caplog: pytest.LogCaptureFixture) -> None:
    """So that a job moves over from Spark's own sink without changes."""
    settings = {
        "kafka.linger.ms": 50,
        "kafka.retries": "2147483647",
        "kafka.max.in.flight.requests.per.connection": 5,
        "kafka.buffer.memory": "67108864",
        "kafka.enable.idempotence": "true",
        "kafka.acks": "all",
        "kafka.compression.type": "lz4",
    }
    options = exactly_once_sink("host:9092", transactional_id="t", topic="out", **settings).options
    assert (
        options
        == exactly_once_sink(
            "host:9092", transactional_id="t", topic="out", **{"kafka.compression.type": "lz4"}
        ).options
    )
    (note,) = [record.getMessage() for record in caplog.records if record.name == "oncelog.spark.options"]
    assert note == (
        "these producer settings have no effect on the exactly-once sink: kafka.acks=all, kafka.buffer.memory=67108864,"
        " kafka.enable.idempotence=true, kafka.linger.ms=50, kafka.max.in.flight.requests.per.connection=5,"
        " kafka.retries=2147483647"
    )


def test_a_setting_of_java_needs_its_prefix() -> None:
    with pytest.raises(SinkError, match=r"no option .linger\.ms."):
        exactly_once_sink("host:9092", transactional_id="t", topic="out", **{"linger.ms": 5})


@pytest.mark.parametrize(
    ("bootstrap", "identity", "topic"), [("", "t", "o"), ("h:x", "t", "o"), ("h", "", "o"), ("h", "t", "")]
)
def test_arguments_must_not_be_empty(bootstrap: str, identity: str, topic: str) -> None:
    with pytest.raises(SinkError):
        exactly_once_sink(bootstrap, transactional_id=identity, topic=topic)


def test_a_sink_that_nobody_holds_any_more_closes_its_connections() -> None:
    """As Spark does with that of a query that has ended."""
    with Broker() as broker:
        sink = exactly_once_sink(broker.bootstrap_servers, transactional_id="t", topic="out")
        connection = sink._cluster.any_connection()
        del sink
        assert connection.closed
