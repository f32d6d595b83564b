"""Settings under Kafka's names become options, or one line that says what is wrong and shows no secret."""

from __future__ import annotations

import pickle

import pytest

from oncelog.client.security.jaas import Credentials, parse_jaas
from oncelog.client.security.options import PLAINTEXT, Protocol, SecurityOptions, parse_security

SECRET = "s3cret"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
JAAS = f'{PLAIN} required username="me" password="{SECRET}";'
SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": JAAS}
PEM = f"-----BEGIN PRIVATE KEY----- {SECRET}"


def test_nothing_given_is_plain_text() -> None:
    assert parse_security({}) == parse_security({"security.protocol": "plaintext"}) == PLAINTEXT


def test_all_settings() -> None:
    options = parse_security(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "scram-sha-512",
            "sasl.jaas.config": f"{SCRAM} required username=me password='{SECRET}';",
            "ssl.truststore.location": "/ca.p12",
            "ssl.truststore.type": "pkcs12",
            "ssl.truststore.password": SECRET,
            "ssl.keystore.key": PEM,
            "ssl.keystore.certificate.chain": "-----BEGIN CERTIFICATE-----",
            "ssl.key.password": SECRET,
            "ssl.endpoint.identification.algorithm": "",
            "ssl.enabled.protocols": "TLSv1.3",
        }
    )
    assert options.protocol is Protocol.SASL_SSL
    assert (options.mechanism, options.credentials) == ("SCRAM-SHA-512", Credentials("me", SECRET))
    assert options.truststore is not None
    assert options.keystore is not None
    assert (options.truststore.type, options.keystore.key) == ("PKCS12", PEM)
    assert (options.checks_host_name, options.tls_versions) == (False, ("TLSv1.3",))
    assert SECRET not in f"{options} {options!r} {options.keystore} {options.credentials}"
    restored: SecurityOptions = pickle.loads(pickle.dumps(options))
    assert restored == options


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"security.protocol": "TLS"}, "security.protocol is 'TLS'; it must be one of PLAINTEXT, SSL"),
        ({"sasl.mechanism": "PLAIN"}, "sasl.mechanism has no use with security.protocol=PLAINTEXT"),
        ({"security.protocol": "SSL", "sasl.jaas.config": JAAS}, "sasl.jaas.config has no use"),
        ({**SASL, "ssl.key.password": SECRET}, "ssl.key.password has no use"),
        ({**SASL, "sasl.mechanism": ""}, "GSSAPI, is not supported; set one of PLAIN, SCRAM"),
        ({**SASL, "sasl.mechanism": "GSSAPI"}, "'GSSAPI', which this client does not have; it has PLAIN"),
        ({**SASL, "sasl.mechanism": "OAUTHBEARER"}, "'OAUTHBEARER', which this client does not have"),
        ({**SASL, "sasl.jaas.config": ""}, "sasl.jaas.config is not set"),
        ({**SASL, "sasl.kerberos.service.name": "x"}, "sasl.kerberos.service.name is not a setting"),
        ({"security.protocol": "SSL", "ssl.keystore.key": PEM}, "need each other"),
        ({"security.protocol": "SSL", "ssl.keystore.type": "BKS"}, "must be PEM or PKCS12"),
        ({"security.protocol": "SSL", "ssl.truststore.password": SECRET}, "no ssl.truststore.location"),
        (
            {"security.protocol": "SSL", "ssl.truststore.location": "a", "ssl.truststore.certificates": "b"},
            "one of them is enough",
        ),
        (
            {"security.protocol": "SSL", "ssl.truststore.type": "JKS", "ssl.truststore.certificates": "b"},
            "certificates as text are PEM",
        ),
        ({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "ldaps"}, "must be https, or empty"),
        ({"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1"}, "this client has TLSv1.2 and TLSv1.3"),
    ],
)
def test_what_cannot_be_kept_is_refused(settings: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        parse_security(settings)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (JAAS, ("me", SECRET)),
        (f'{PLAIN} required\n  username="a b"\n  password="x\\"y\\\\z;=";', ("a b", 'x"y\\z;=')),
        (f"kafkashaded.{SCRAM} required username = 'u' password = p-1 ;", ("u", "p-1")),
        (f"{SCRAM} required tokenauth=false password=p username=u;", ("u", "p")),
    ],
)
def test_jaas(text: str, expected: tuple[str, str]) -> None:
    assert parse_jaas(text) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (SECRET, "not one entry of a login module"),
        (f'{PLAIN} required username="me" password="{SECRET}"', "not one entry"),
        (f'{PLAIN} username="me" password="{SECRET}";', "not one entry"),
        (f'{PLAIN} required username="me" password="{SECRET};', "quote that is not closed"),
        (f'{PLAIN} required username="me" "{SECRET}";', "not NAME=VALUE"),
        (f'{PLAIN} required password="{SECRET}";', "has no username"),
        (f'{PLAIN} required username="me" password="{SECRET}" debug=true;', "beside username and password"),
        (f'{SCRAM} required username="me" password="{SECRET}" tokenauth="true";', "delegation tokens"),
        (f'com.sun.security.auth.module.Krb5LoginModule required keyTab="{SECRET}";', "names Krb5LoginModule"),
    ],
)
def test_jaas_that_is_none(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        parse_jaas(text)
    assert SECRET not in str(caught.value)
