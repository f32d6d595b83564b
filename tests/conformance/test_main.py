from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from conformance.brokers import Running
from conformance.cells import Seat
from conformance.observations import differences
from conformance.scenarios import SCENARIOS

if TYPE_CHECKING:
    from conformance.reference.kafka import ApacheKafka

PYTHON_CLIENTS = ("confluent", "kafka-python", "aiokafka")
NEED_SETTINGS = {
    "groups",
    "rebalance",
    "transactions",
    "isolation",
    "retention",
    "compaction",
    "quotas",
    "large_messages",
    "restart",
    "reconnects",
}
"""Rest on settings of the card, or take long; the card runs them."""


@pytest.mark.java
@pytest.mark.parametrize("client", PYTHON_CLIENTS)
@pytest.mark.parametrize("scenario", SCENARIOS.keys() - NEED_SETTINGS)
def test_two_runs_on_the_reference_are_alike(apache_kafka: ApacheKafka, client: str, scenario: str) -> None:
    with closing(Seat(client, Running(apache_kafka.bootstrap_servers))) as seat:
        first, second = (seat.observe(scenario, fast=True) for _ in range(2))

    assert list(differences(first, second)) == []
