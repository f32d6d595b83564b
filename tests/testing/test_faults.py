"""Faults on request, and a clock that can be advanced."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import KafkaException, Producer

from oncelog.testing import Broker

pytestmark = pytest.mark.parametrize("subprocess", [False, True], ids=["thread", "process"])


def transactional(broker: Broker, client_id: str = "test") -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "transactional.id": "id",
            "client.id": client_id,
            "reconnect.backoff.max.ms": 100,
            "retry.backoff.ms": 10,
            "log_level": 0,
        }
    )
    producer.init_transactions(30)
    return producer


def commit_one(producer: Producer) -> None:
    producer.begin_transaction()
    producer.produce("topic", b"value")
    producer.commit_transaction(30)


@pytest.mark.parametrize("action", ["drop-reply", "disconnect", "error:COORDINATOR_NOT_AVAILABLE"])
def test_a_client_gets_over_what_is_injected(subprocess: bool, action: str) -> None:
    with Broker(subprocess=subprocess) as broker:
        producer = transactional(broker)
        fault = broker.faults.inject(api="EndTxn", nth=2, action=action)
        commit_one(producer)
        assert fault.hits == 0
        commit_one(producer)
        assert fault.hits == 1
        commit_one(producer)
        assert fault.hits == 1


def test_a_request_can_be_late(subprocess: bool) -> None:
    with Broker(subprocess=subprocess) as broker:
        producer = transactional(broker)
        broker.faults.inject(api="EndTxn", action="delay", delay_ms=300)
        started = time.monotonic()
        commit_one(producer)
        assert time.monotonic() - started >= 0.3


def test_an_error_of_ones_choice(subprocess: bool) -> None:
    with Broker(subprocess=subprocess) as broker:
        producer = transactional(broker)
        broker.faults.inject("AddPartitionsToTxn", "error:INVALID_PRODUCER_ID_MAPPING")
        with pytest.raises(KafkaException) as caught:
            commit_one(producer)
        assert caught.value.args[0].txn_requires_abort()


def test_only_the_client_that_is_meant(subprocess: bool) -> None:
    with Broker(subprocess=subprocess) as broker:
        producer = transactional(broker, "mine")
        others = broker.faults.inject("EndTxn", "disconnect", client_id="theirs", times=0)
        commit_one(producer)
        assert others.hits == 0


def test_faults_can_be_taken_back(subprocess: bool) -> None:
    with Broker(subprocess=subprocess) as broker:
        producer = transactional(broker)
        first = broker.faults.inject("EndTxn", "error:PRODUCER_FENCED", times=0)
        broker.faults.inject("EndTxn", "error:PRODUCER_FENCED", times=0)
        first.remove()
        broker.faults.clear()
        commit_one(producer)
        assert first.hits == 0


@pytest.mark.parametrize("action", ["crash-before", "crash-after"])
def test_a_crash_at_a_request(subprocess: bool, action: str) -> None:
    with Broker(subprocess=subprocess) as broker:
        if not subprocess:
            with pytest.raises(ValueError, match="in your own process"):
                broker.faults.inject("EndTxn", action)
            return
        producer = transactional(broker)
        broker.faults.inject("EndTxn", action)
        producer.begin_transaction()
        producer.produce("topic", b"value")
        with pytest.raises(KafkaException) as caught:
            producer.commit_transaction(1)
        assert caught.value.args[0].retriable()
        broker.wait_for_crash()
        broker.start()
        producer.commit_transaction(30)


def test_timeouts_without_waiting(subprocess: bool) -> None:
    with Broker(subprocess=subprocess) as broker:
        producer = transactional(broker)
        producer.begin_transaction()
        producer.produce("topic", b"value")
        producer.flush(30)
        broker.clock.advance(60_000)
        with pytest.raises(KafkaException) as caught:
            producer.commit_transaction(30)
        assert caught.value.args[0].fatal()


def test_mistakes_are_told(subprocess: bool) -> None:
    with Broker(subprocess=subprocess) as broker:
        with pytest.raises(ValueError, match="no API 'EndTransaction'"):
            broker.faults.inject("EndTransaction", "delay")
        with pytest.raises(ValueError, match="no action 'explode'"):
            broker.faults.inject("EndTxn", "explode")
        with pytest.raises(ValueError, match="no error code 'NO_SUCH'"):
            broker.faults.inject("EndTxn", "error:NO_SUCH")
