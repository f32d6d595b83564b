"""Key stores of each kind, read by OpenSSL, and what is said of those that cannot be read."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)

from oncelog.client.errors import SecurityError
from oncelog.client.security.options import parse_security
from oncelog.client.security.tls import tls_context

SECRET = "s3cret"


class Files:
    def __init__(self, directory: Path) -> None:
        authority = trustme.CA()
        issued = authority.issue_cert("client")
        self.ca_text = authority.cert_pem.bytes().decode()
        self.chain_text = b"".join(blob.bytes() for blob in issued.cert_chain_pems).decode()
        key = load_pem_private_key(issued.private_key_pem.bytes(), None)
        encryption = BestAvailableEncryption(SECRET.encode())
        self.key_text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()
        certificate = x509.load_pem_x509_certificate(self.chain_text.encode())
        ca_certificate = x509.load_pem_x509_certificate(self.ca_text.encode())
        self.ca = directory / "ca.pem"
        self.ca.write_text(self.ca_text)
        self.key = directory / "key.pem"
        self.key.write_text(self.key_text + self.chain_text)
        self.key_p12 = directory / "key.p12"
        self.key_p12.write_bytes(
            pkcs12.serialize_key_and_certificates(b"me", key, certificate, [ca_certificate], encryption)  # type: ignore[arg-type]
        )
        self.ca_p12 = directory / "ca.p12"
        self.ca_p12.write_bytes(pkcs12.serialize_key_and_certificates(None, None, None, [ca_certificate], encryption))
        self.jks = directory / "old.jks"
        self.jks.write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
        self.other = directory / "other"
        self.other.write_bytes(b"something else")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("stores"))


def context(**settings: object) -> ssl.SSLContext:
    named = {f"ssl.{name.replace('_', '.')}": str(value) for name, value in settings.items()}
    return tls_context(parse_security({"security.protocol": "SSL"} | named))


def authorities(opened: ssl.SSLContext) -> int:
    return opened.cert_store_stats()["x509_ca"]


def test_trust_stores(files: Files) -> None:
    assert authorities(context(truststore_location=files.ca)) == 1
    assert authorities(context(truststore_location=files.ca, truststore_type="PEM")) == 1
    assert authorities(context(truststore_certificates=files.ca_text)) == 1
    assert authorities(context(truststore_location=files.ca_p12, truststore_password=SECRET)) == 1


def test_key_stores(files: Files) -> None:
    trust = {"truststore_location": files.ca}
    context(**trust, keystore_location=files.key, key_password=SECRET)
    context(**trust, keystore_key=files.key_text, keystore_certificate_chain=files.chain_text, key_password=SECRET)
    context(**trust, keystore_location=files.key_p12, keystore_password=SECRET)


def test_without_a_check_of_the_host_name_the_certificate_is_still_checked(files: Files) -> None:
    opened = context(truststore_location=files.ca, endpoint_identification_algorithm="")
    assert not opened.check_hostname
    assert opened.verify_mode is ssl.CERT_REQUIRED


def test_stores_that_cannot_be_read(files: Files) -> None:
    trust = {"truststore_location": files.ca}
    cases = [
        ({"truststore_location": files.jks}, "old.jks is a JKS store.*keytool -importkeystore -srckeystore old.jks"),
        ({"truststore_location": files.ca_p12}, "is ssl.truststore.password right"),
        (
            {"truststore_location": files.ca_p12, "truststore_password": SECRET + "x"},
            "is ssl.truststore.password right",
        ),
        ({"truststore_location": files.other}, "cannot be read as PKCS12"),
        ({"truststore_location": files.other, "truststore_type": "PEM"}, "type is PEM, but .*other is none"),
        ({"truststore_location": files.ca, "truststore_password": SECRET}, "a PEM trust store has none"),
        ({"truststore_certificates": "-----BEGIN nothing"}, "no certificate that can be read"),
        ({**trust, "keystore_location": files.key}, "an encrypted key needs ssl.key.password"),
        ({**trust, "keystore_location": files.key, "key_password": SECRET + "x"}, "is ssl.key.password right"),
        (
            {**trust, "keystore_location": files.key, "keystore_password": SECRET},
            "PEM key store has ssl.key.password",
        ),
        ({**trust, "keystore_location": files.ca_p12, "keystore_password": SECRET}, "no key with a certificate"),
    ]
    for settings, words in cases:
        with pytest.raises(SecurityError, match=words) as caught:
            context(**settings)
        assert SECRET not in str(caught.value)
