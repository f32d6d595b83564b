"""How a client proves who it is, and how it knows the broker: Kafka's settings, checked and typed.

The options hold what was given: files are read where a connection is made, on each machine for itself, so that
renewed certificates are picked up. They can be pickled, and show no secret when they are printed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from oncelog.client.security.jaas import Credentials, parse_jaas

PREFIXES = ("security.", "ssl.", "sasl.")
SCRAM_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = ("PLAIN", *SCRAM_MECHANISMS)
STORE_TYPES = ("PEM", "PKCS12", "JKS")
TLS_VERSIONS = ("TLSv1.2", "TLSv1.3")


class Protocol(Enum):
    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        return self in (Protocol.SSL, Protocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        return self in (Protocol.SASL_PLAINTEXT, Protocol.SASL_SSL)


@dataclass(frozen=True, repr=False)
class Store:
    """Certificates, and for a key store the key to them: a file, or the text itself in PEM."""

    setting: str
    """`ssl.truststore` or `ssl.keystore`, for messages."""
    location: str | None = None
    type: str | None = None
    password: str | None = None
    certificates: str | None = None
    key: str | None = None
    key_password: str | None = None

    def __repr__(self) -> str:
        return f"Store({self.setting}, {self.location or 'given as text'})"


@dataclass(frozen=True)
class SecurityOptions:
    protocol: Protocol = Protocol.PLAINTEXT
    truststore: Store | None = None
    """None: the certificate authorities that this machine trusts."""
    keystore: Store | None = None
    checks_host_name: bool = True
    tls_versions: tuple[str, ...] = TLS_VERSIONS
    mechanism: str = ""
    credentials: Credentials | None = None


PLAINTEXT = SecurityOptions()


def is_security_setting(name: str) -> bool:
    return name.startswith(PREFIXES)


def parse_security(settings: Mapping[str, str]) -> SecurityOptions:
    """From settings that `is_security_setting`. Raises ValueError with one line that names no secret."""
    left = {name: value.strip() for name, value in settings.items()}
    protocol = _protocol(left.pop("security.protocol", "") or Protocol.PLAINTEXT.value)
    _check_use(protocol, left)
    options = SecurityOptions(
        protocol,
        truststore=_truststore(left),
        keystore=_keystore(left),
        checks_host_name=_checks_host_name(left.pop("ssl.endpoint.identification.algorithm", "https")),
        tls_versions=_tls_versions(left.pop("ssl.enabled.protocols", "")),
        mechanism=_mechanism(left.pop("sasl.mechanism", "")) if protocol.has_sasl else "",
        credentials=_credentials(left.pop("sasl.jaas.config", "")) if protocol.has_sasl else None,
    )
    for name in left:
        raise ValueError(f"{name} is not a setting that this client knows")
    return options


def _protocol(value: str) -> Protocol:
    try:
        return Protocol(value.upper())
    except ValueError:
        known = ", ".join(protocol.value for protocol in Protocol)
        raise ValueError(f"security.protocol is {value!r}; it must be one of {known}") from None


def _check_use(protocol: Protocol, names: Mapping[str, str]) -> None:
    """Who gives a password and no protocol would otherwise speak in plain text without knowing it."""
    for name in names:
        if name.startswith("ssl.") and not protocol.has_tls:
            raise ValueError(f"{name} has no use with security.protocol={protocol.value}; set it to SSL or SASL_SSL")
        if name.startswith("sasl.") and not protocol.has_sasl:
            raise ValueError(
                f"{name} has no use with security.protocol={protocol.value}; set it to SASL_SSL or SASL_PLAINTEXT"
            )


def _truststore(left: dict[str, str]) -> Store | None:
    store = Store(
        "ssl.truststore",
        left.pop("ssl.truststore.location", "") or None,
        _store_type("ssl.truststore.type", left.pop("ssl.truststore.type", "")),
        left.pop("ssl.truststore.password", "") or None,
        left.pop("ssl.truststore.certificates", "") or None,
    )
    return _checked(store)


def _keystore(left: dict[str, str]) -> Store | None:
    store = Store(
        "ssl.keystore",
        left.pop("ssl.keystore.location", "") or None,
        _store_type("ssl.keystore.type", left.pop("ssl.keystore.type", "")),
        left.pop("ssl.keystore.password", "") or None,
        left.pop("ssl.keystore.certificate.chain", "") or None,
        left.pop("ssl.keystore.key", "") or None,
        left.pop("ssl.key.password", "") or None,
    )
    if bool(store.certificates) != bool(store.key):
        raise ValueError("ssl.keystore.certificate.chain and ssl.keystore.key need each other")
    return _checked(store)


def _checked(store: Store) -> Store | None:
    given = store.certificates is not None
    if given and store.location:
        raise ValueError(f"{store.setting}.location and the certificates as text were given; one of them is enough")
    if given and store.type not in (None, "PEM"):
        raise ValueError(f"{store.setting}.type is {store.type}, but certificates as text are PEM")
    if not given and not store.location:
        if store.password or store.key_password or store.type:
            raise ValueError(f"{store.setting} has a type or a password, but no {store.setting}.location")
        return None
    return store


def _store_type(name: str, value: str) -> str | None:
    if value and value.upper() not in STORE_TYPES:
        raise ValueError(f"{name} is {value!r}; it must be PEM or PKCS12")
    return value.upper() or None


def _checks_host_name(value: str) -> bool:
    if value.lower() not in ("", "https"):
        raise ValueError(f"ssl.endpoint.identification.algorithm is {value!r}; it must be https, or empty for no check")
    return bool(value)


def _tls_versions(value: str) -> tuple[str, ...]:
    given = [part.strip() for part in value.split(",") if part.strip()]
    for part in given:
        if part not in TLS_VERSIONS:
            raise ValueError(f"ssl.enabled.protocols has {part!r}; this client has {' and '.join(TLS_VERSIONS)}")
    return tuple(version for version in TLS_VERSIONS if not given or version in given)


def _mechanism(value: str) -> str:
    known = ", ".join(MECHANISMS)
    if not value:
        raise ValueError(
            f"sasl.mechanism is not set, and Kafka's default, GSSAPI, is not supported; set one of {known}"
        )
    if value.upper() not in MECHANISMS:
        raise ValueError(f"sasl.mechanism is {value!r}, which this client does not have; it has {known}")
    return value.upper()


def _credentials(value: str) -> Credentials:
    if not value:
        raise ValueError("sasl.jaas.config is not set: it holds the user and the password")
    return parse_jaas(value)
