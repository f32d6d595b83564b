"""Every security protocol against Apache Kafka, and what a person reads when broker and client do not agree."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from oncelog.cli.main import main
from oncelog.client.admin import Admin
from oncelog.client.cluster import Cluster
from oncelog.client.connection import Connection
from oncelog.client.consumer import Consumer, Start
from oncelog.client.errors import BrokerUnavailable, ClientError, ConnectionLost, SecurityError
from oncelog.client.producer import Producer
from oncelog.client.security.options import parse_security
from oncelog.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.client.security.secured import PASSWORD, SCRAM_PASSWORD, Secured

pytestmark = pytest.mark.java

WRONG = "wr0ng"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    made = Secured(tmp_path_factory.mktemp("secured"))
    with made.kafka:
        yield made


WAYS = [
    ("TLS", ""),
    ("MUTUAL", ""),
    ("SASL", "PLAIN"),
    ("SASL", "SCRAM-SHA-256"),
    ("BOTH", "PLAIN"),
    ("BOTH", "SCRAM-SHA-512"),
]


@pytest.mark.parametrize(("listener", "mechanism"), WAYS)
def test_records_go_there_and_back(secured: Secured, listener: str, mechanism: str) -> None:
    topic = f"way-{listener}-{mechanism}"
    security = parse_security(secured.settings(listener, mechanism))
    with Cluster(str(secured.address(listener)), security=security) as cluster:
        Admin(cluster).create_topic(topic, partitions=1)
        producer = Producer(cluster)
        values = [b"first", b"x" * 300_000]
        for value in values:
            producer.produce(topic, value)
        producer.flush()
        assert cluster.brokers[1].port == secured.kafka.ports[listener]
        consumed = Consumer(cluster, topic, start=Start.earliest()).records(follow=False)
        assert [each.record.value for each in consumed] == values


def test_a_session_is_renewed_before_it_ends(secured: Secured) -> None:
    """The broker hangs up on a session that is over at its next request."""
    with secured.connect("SHORT", secured.settings("SHORT")) as connection:
        started = time.monotonic()
        while time.monotonic() < started + 2.0:
            assert connection.send(MetadataRequest(topics=[]), MetadataResponse).brokers


def refuse(connect: Callable[[], Connection], kind: type[ClientError], words: str) -> None:
    with pytest.raises(kind, match=words) as caught, contextlib.closing(connect()) as connection:
        connection.send(MetadataRequest(topics=[]), MetadataResponse)
    told = f"{caught.value!r} {caught.value.__cause__!r}"
    assert not any(secret in told for secret in (PASSWORD, WRONG, SCRAM_PASSWORD))


@pytest.mark.parametrize(
    ("listener", "mechanism"), [("SASL", "PLAIN"), ("BOTH", "SCRAM-SHA-256"), ("SASL", "SCRAM-SHA-512")]
)
def test_a_wrong_password(secured: Secured, listener: str, mechanism: str) -> None:
    settings = secured.settings(listener, mechanism, WRONG)
    words = rf"does not let user '\w+' in with {mechanism}: wrong user or password in sasl.jaas.config"
    refuse(lambda: secured.connect(listener, settings), SecurityError, words)


def test_certificates_that_do_not_fit(secured: Secured) -> None:
    trusting = secured.settings("TLS")
    stranger = trusting | {"ssl.truststore.location": str(secured.stranger)}
    refuse(lambda: secured.connect("TLS", stranger), SecurityError, "is not trusted: .*ssl.truststore.location names")
    refuse(lambda: secured.connect("TLS", trusting, "localhost"), SecurityError, "is not for 'localhost'; use a name")
    refuse(
        lambda: secured.connect("MUTUAL", trusting),
        ClientError,
        r"certificate.* ssl\.keystore\.location|\(ssl\.keystore\.location\)",
    )
    unchecked = trusting | {"ssl.endpoint.identification.algorithm": ""}
    secured.connect("TLS", unchecked, "localhost").close()


def test_a_port_of_another_protocol(secured: Secured) -> None:
    secured.kafka.ports["PLAIN"] = int(secured.kafka.bootstrap_servers.rpartition(":")[2])
    tls, sasl = secured.settings("TLS"), secured.settings("SASL")
    refuse(lambda: secured.connect("PLAIN", tls), BrokerUnavailable, "in the TLS handshake; is it a port with SSL")
    refuse(lambda: secured.connect("PLAIN", sasl), SecurityError, "does not want SASL on this port")
    refuse(lambda: secured.connect("TLS", {}), ClientError, "speaks TLS|first request; if the port wants TLS")
    refuse(lambda: secured.connect("SASL", {}), ConnectionLost, "first request; if the port wants TLS or SASL")
    other = sasl | {"sasl.mechanism": "PLAIN"}
    refuse(lambda: secured.connect("TLS", other), ClientError, "speaks TLS|closed the connection")


def test_the_command_line_takes_a_file_of_kafkas_tools(
    secured: Secured, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    settings = secured.settings("BOTH", "SCRAM-SHA-256")
    file = tmp_path / "client.properties"
    file.write_text("client.id=someone\n" + "".join(f"{name}={value}\n" for name, value in settings.items()))
    arguments = ["-b", str(secured.address("BOTH")), "--command-config", str(file)]
    assert main(["topics", "create", "by-command", *arguments]) == 0
    assert main(["topics", "list", *arguments]) == 0
    assert main(["ping", "-q", *arguments]) == 0
    assert "by-command" in capfd.readouterr().out
    file.write_text("security.protocol=SASL_PLAINTEXT\n")
    assert main(["topics", "list", *arguments]) == 2
    assert "client.properties: sasl.mechanism is not set" in capfd.readouterr().err
