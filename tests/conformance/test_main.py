from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance.__main__ import observe
from conformance.observations import differences
from conformance.scenarios import SCENARIOS

if TYPE_CHECKING:
    from conformance.reference.kafka import ApacheKafka

PYTHON_CLIENTS = ("confluent", "kafka-python", "aiokafka")


@pytest.mark.java
@pytest.mark.parametrize("client", PYTHON_CLIENTS)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_two_runs_on_the_reference_are_alike(apache_kafka: ApacheKafka, client: str, scenario: str) -> None:
    first, second = (observe(client, scenario, apache_kafka.bootstrap_servers, fast=True) for _ in range(2))

    assert list(differences(first, second)) == []
