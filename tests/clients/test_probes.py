"""What tools take the broker for: the version that they guess from its API keys, and what they ask when they start."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from stock_clients import kafka  # which knows how to load it without a warning

from conformance.clients import go
from oncelog.client.cluster import Cluster
from oncelog.testing import Broker

GO_PROBE = Path(__file__).with_name("go_probe")
TIMEOUT_S = 60

needs_go = pytest.mark.skipif(go.missing() is not None, reason=str(go.missing()))


def probe(name: str, broker: Broker, *args: str) -> Any:
    command = [str(go.built(GO_PROBE)), name, broker.bootstrap_servers, *args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_keys_and_versions_are_those_of_kafka_4_3(broker: Broker) -> None:
    """By the table that kafka-python has of the brokers that it knows."""
    expected = kafka.protocol.broker_version_data.BROKER_API_VERSIONS[4, 3]
    with Cluster(broker.bootstrap_servers) as cluster:
        found = {key: (first, last) for key, (first, last) in cluster.any_connection().versions.items()}
    assert found == expected


def test_kafka_python_guesses_4_3(broker: Broker) -> None:
    admin = kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    try:
        assert admin.get_broker_version_data(1).broker_version == (4, 3)
    finally:
        admin.close()


@needs_go
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_franz_go_guesses_4_3(broker: Broker) -> None:
    """The plain guess is what kcl and kminion print."""
    assert probe("version", broker) == ["v4.3", "v4.3"]


@needs_go
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_tools_in_go_are_answered(broker: Broker) -> None:
    """As by a Kafka without an authorizer and without users; a closed connection would be an EOF."""
    assert probe("sarama", broker) == {
        "acls": "kafka server: Security features are disabled: No Authorizer is configured on the broker",
        "users": 0,
        "reassignments": 0,
    }
    told = probe("franz-go", broker)
    assert told["acls"].startswith("SECURITY_DISABLED: ")
    assert told["tokens"].startswith("DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: ")
    assert (told["users"], told["reassignments"]) == (0, 0)
