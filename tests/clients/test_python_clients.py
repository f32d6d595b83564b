"""confluent-kafka, kafka-python and aiokafka: what one produces comes back byte for byte, with every codec."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from payloads import (
    ACKS,
    CODECS,
    LARGE,
    LARGE_TOPIC,
    SMALL_TO_MIDDLE,
    Sent,
    received,
    stored_codecs,
    without_null_headers,
)
from stock_clients import CLIENTS

from oncelog.testing import Broker

# kafka-python loads its schemas by functions that Python 3.11 calls deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated")


def records_for(name: str) -> tuple[Sent, ...]:
    return SMALL_TO_MIDDLE if CLIENTS[name].sends_null_headers else without_null_headers(SMALL_TO_MIDDLE)


@pytest.mark.parametrize("acks", ACKS)
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("name", CLIENTS)
def test_records_come_back_unchanged(
    broker: Broker, unique: Callable[[str], str], name: str, codec: str, acks: str
) -> None:
    client, topic, address = CLIENTS[name], unique("records"), broker.bootstrap_servers
    records = records_for(name)
    client.create_topic(address, topic, {})
    offsets = client.produce(address, topic, records, codec=codec, acks=acks)
    assert offsets in (None, list(range(len(records))))
    assert (offsets is None) == (acks == "0")
    assert client.consume(address, topic, len(records)) == received(records)
    # A batch that would only grow is sent as it is by some clients, but not one with a value of 100 kB.
    assert codec in stored_codecs(broker.data_dir, topic)


@pytest.mark.parametrize("name", CLIENTS)
def test_a_record_of_10_mb(broker: Broker, unique: Callable[[str], str], name: str) -> None:
    client, topic, address = CLIENTS[name], unique("large"), broker.bootstrap_servers
    client.create_topic(address, topic, LARGE_TOPIC)
    assert client.produce(address, topic, LARGE, codec="none", acks="all") == [0]
    assert client.consume(address, topic, 1) == received(LARGE)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("producer", CLIENTS)
def test_every_client_reads_every_other(
    broker: Broker, unique: Callable[[str], str], producer: str, codec: str
) -> None:
    topic, address = unique("shared"), broker.bootstrap_servers
    records = records_for(producer)
    CLIENTS[producer].create_topic(address, topic, {})
    CLIENTS[producer].produce(address, topic, records, codec=codec, acks="all")
    for name in CLIENTS.keys() - {producer}:
        assert CLIENTS[name].consume(address, topic, len(records)) == received(records), name


@pytest.mark.parametrize("name", CLIENTS)
def test_a_producer_waits_for_its_id(broker: Broker, unique: Callable[[str], str], name: str) -> None:
    """While the metadata cannot be written; of the errors that would fit, all clients retry only this one."""
    client, topic, address = CLIENTS[name], unique("id"), broker.bootstrap_servers
    client.create_topic(address, topic, {})
    fault = broker.faults.inject(api="InitProducerId", times=3, action="error:COORDINATOR_LOAD_IN_PROGRESS")
    assert client.produce_idempotently(address, topic) == 0
    assert fault.hits == 3
