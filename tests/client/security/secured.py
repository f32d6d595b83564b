"""Apache Kafka with a listener for each security protocol, for the tests of the client and of the Spark sink."""

from __future__ import annotations

from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from conformance.reference.kafka import ApacheKafka
from oncelog.client.addresses import Address
from oncelog.client.connection import Connection
from oncelog.client.security.options import parse_security

LISTENERS = {
    "TLS": "SSL",
    "MUTUAL": "SSL",
    "SASL": "SASL_PLAINTEXT",
    "BOTH": "SASL_SSL",
    "SHORT": "SASL_PLAINTEXT",
}
MODULES = "org.apache.kafka.common.security"
PASSWORD = "pl4in, =;"
SCRAM_PASSWORD = "scr4m-pass"


class Secured:
    """Apache Kafka with all its listeners, and the files of a certificate authority beside it."""

    def __init__(self, directory: Path) -> None:
        authority = trustme.CA()
        self.ca = directory / "ca.pem"
        self.stranger = directory / "stranger.pem"
        self.client = directory / "client.pem"
        server = directory / "server.pem"
        authority.cert_pem.write_to_path(self.ca)
        trustme.CA().cert_pem.write_to_path(self.stranger)
        _write_keystore(authority.issue_cert("127.0.0.1"), server)
        _write_keystore(authority.issue_cert("client"), self.client)
        self.kafka = ApacheKafka(
            _server_properties(server, self.ca),
            listeners=LISTENERS,
            scram=[
                f"SCRAM-SHA-256=[name=scrammer,password={SCRAM_PASSWORD}]",
                f"SCRAM-SHA-512=[name=scrammer,password={SCRAM_PASSWORD}]",
            ],
        )

    def address(self, listener: str) -> Address:
        return Address("127.0.0.1", self.kafka.ports[listener])

    def settings(self, listener: str, mechanism: str = "PLAIN", password: str | None = None) -> dict[str, str]:
        """What a client needs for this listener."""
        protocol = LISTENERS[listener]
        settings = {"security.protocol": protocol}
        if protocol.endswith("SSL"):
            settings["ssl.truststore.location"] = str(self.ca)
        if listener == "MUTUAL":
            settings["ssl.keystore.location"] = str(self.client)
        if protocol.startswith("SASL"):
            settings |= {"sasl.mechanism": mechanism, "sasl.jaas.config": _jaas(mechanism, password)}
        return settings

    def connect(self, listener: str, settings: dict[str, str], host: str = "127.0.0.1") -> Connection:
        address = Address(host, self.kafka.ports[listener])
        return Connection(address, security=parse_security(settings), timeout_ms=10_000)


def _jaas(mechanism: str, password: str | None) -> str:
    if mechanism == "PLAIN":
        return f'{MODULES}.plain.PlainLoginModule required username="plain" password="{password or PASSWORD}";'
    return f'{MODULES}.scram.ScramLoginModule required username="scrammer" password="{password or SCRAM_PASSWORD}";'


def _write_keystore(issued: trustme.LeafCert, path: Path) -> None:
    """Kafka wants the key in PKCS8."""
    key = load_pem_private_key(issued.private_key_pem.bytes(), None)
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    for blob in issued.cert_chain_pems:
        blob.write_to_path(path, append=True)


def _server_properties(server: Path, ca: Path) -> dict[str, str]:
    properties = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(server),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(ca),
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.short.plain.connections.max.reauth.ms": "1500",
    }
    for listener in ("sasl", "both", "short"):
        prefix = f"listener.name.{listener}"
        properties |= {
            f"{prefix}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            f"{prefix}.plain.sasl.jaas.config": f'{MODULES}.plain.PlainLoginModule required user_plain="{PASSWORD}";',
            f"{prefix}.scram-sha-256.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
            f"{prefix}.scram-sha-512.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
        }
    return properties
