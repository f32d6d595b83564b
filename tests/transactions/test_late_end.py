"""An EndTxn that arrives again, or for the first time, when the next transaction has begun, does not end that one
(KAFKA-17754).

ONCELOG_LATE_ENDS sets how many there are for each client; 10,000 are a soak test.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from java_driver import JavaDriver
from producers import ConfluentProducer, JavaProducer, TransactionalProducer
from proxy import Proxy
from reading import create_topic, read

from conformance.reference.ports import free_ports
from oncelog.testing import Broker
from tests.soak import Soak

LATE_ENDS = int(os.environ.get("ONCELOG_LATE_ENDS", "150"))

pytestmark = [pytest.mark.soak, pytest.mark.timeout(120 + LATE_ENDS)]


@pytest.fixture
def proxied() -> Iterator[tuple[Broker, Proxy, str]]:
    """A broker that sends its clients to the proxy, and the address of both."""
    (port,) = free_ports(1)
    with Broker({"advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"}) as broker:
        proxy = Proxy(port, int(broker.bootstrap_servers.rpartition(":")[2]))
        yield broker, proxy, f"127.0.0.1:{port}"
        proxy.close()


def make(client: str, address: str, request: pytest.FixtureRequest) -> TransactionalProducer:
    if client == "java":
        driver: JavaDriver = request.getfixturevalue("java")
        return JavaProducer(driver, "late", address, "late", 60_000)
    return ConfluentProducer(address, "late", 60_000)


@pytest.mark.parametrize("client", ["confluent", pytest.param("java", marks=pytest.mark.java)])
def test_no_transaction_is_ended_by_the_end_of_another(
    client: str, proxied: tuple[Broker, Proxy, str], request: pytest.FixtureRequest, soak: Soak
) -> None:
    _, proxy, address = proxied
    create_topic(address, "t", 1)
    producer = make(client, address, request)
    expected = []
    late = number = 0
    while late < LATE_ENDS:
        producer.begin()
        values = [f"{number}a"]
        producer.send("t", 0, values[0])
        producer.flush()
        if proxy.has_late_end:
            proxy.deliver_late()
            late += 1
            values.append(f"{number}b")
            producer.send("t", 0, values[1])
        if number % 3 == 0:
            proxy.repeat_next_end()
        elif number % 3 == 1:
            proxy.hold_next_end()
        if number % 5 == 4:
            producer.abort()
        else:
            producer.commit()
            expected += values
        number += 1
        soak.progress(f"{late} of {LATE_ENDS} late EndTxn, {number} transactions")
    (seen,) = read(address, "t", 1)
    assert seen == expected
    producer.close()
    soak.result(f"{late} late EndTxn between {number} transactions: {len(seen)} records, all as they should be")
