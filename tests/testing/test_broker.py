"""The embedded broker, as its users use it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from oncelog.testing import Broker, BrokerFailed

pytest_plugins = ["pytester"]


def produce(broker: Broker, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    producer.produce("topic", value)
    assert producer.flush(30) == 0


def consume(broker: Broker, count: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "test", "log_level": 0})
    consumer.assign([TopicPartition("topic", 0, 0)])
    try:
        found = []
        while len(found) < count:
            message = consumer.poll(30)
            assert message is not None
            assert message.error() is None
            found.append(message.value())
        return found
    finally:
        consumer.close()


@pytest.mark.parametrize("subprocess", [False, True], ids=["thread", "process"])
def test_a_broker_serves_for_the_length_of_a_with_block(subprocess: bool) -> None:
    with Broker(subprocess=subprocess) as broker:
        directory = broker.data_dir
        produce(broker, b"hello")
        assert consume(broker, 1) == [b"hello"]
    assert not directory.exists()


@pytest.mark.parametrize("subprocess", [False, True], ids=["thread", "process"])
def test_a_restart_keeps_data_and_port(subprocess: bool) -> None:
    with Broker(subprocess=subprocess) as broker:
        address = broker.bootstrap_servers
        produce(broker, b"one")
        broker.restart()
        assert broker.bootstrap_servers == address
        produce(broker, b"two")
        assert consume(broker, 2) == [b"one", b"two"]


def test_what_was_acknowledged_survives_a_kill() -> None:
    with Broker({"log.flush.on.ack": True}, subprocess=True) as broker:
        for index in range(5):
            produce(broker, b"%d" % index)
            broker.kill()
            broker.start()
        assert consume(broker, 5) == [b"%d" % index for index in range(5)]


def test_a_broker_in_ones_own_process_cannot_be_killed() -> None:
    with Broker() as broker:
        with pytest.raises(RuntimeError, match="subprocess=True"):
            broker.kill()
        assert broker.pid == os.getpid()


def test_a_directory_of_ones_own_outlives_the_broker(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path) as broker:
        produce(broker, b"kept")
    with Broker(data_dir=tmp_path) as broker:
        assert consume(broker, 1) == [b"kept"]


def test_two_brokers_side_by_side_do_not_meet() -> None:
    with Broker() as one, Broker() as other:
        produce(one, b"one")
        produce(other, b"other")
        assert consume(one, 1) == [b"one"]
        assert consume(other, 1) == [b"other"]


@pytest.mark.parametrize("subprocess", [False, True], ids=["thread", "process"])
def test_a_broker_that_cannot_start_says_why(subprocess: bool) -> None:
    broker = Broker({"num.partitions": "many"}, subprocess=subprocess)
    with pytest.raises(BrokerFailed, match=r"num\.partitions|exit code 2"):
        broker.start()


@pytest.mark.parametrize("subprocess", [False, True])
def test_settings_come_from_the_test_and_not_from_the_environment(
    subprocess: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONCELOG_KILLS", "100")
    monkeypatch.setenv("KAFKA_NUM_PARTITIONS", "none")
    with Broker(subprocess=subprocess):
        pass


def test_the_plugin_gives_a_fresh_broker_to_every_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        seen = []

        def test_one(oncelog_broker):
            seen.append(oncelog_broker.bootstrap_servers)

        def test_two(oncelog_broker):
            seen.append(oncelog_broker.bootstrap_servers)
            assert len(set(seen)) == 2
        """
    )
    pytester.runpytest("-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:asyncio").assert_outcomes(passed=2)


def test_the_plugin_can_share_one_broker(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\noncelog_broker_scope = session")
    pytester.makepyfile(
        """
        seen = []

        def test_one(oncelog_broker, oncelog_session_broker):
            seen.append(oncelog_broker.bootstrap_servers)

        def test_two(oncelog_broker):
            seen.append(oncelog_broker.bootstrap_servers)
            assert len(set(seen)) == 1
        """
    )
    pytester.runpytest("-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:asyncio").assert_outcomes(passed=2)
