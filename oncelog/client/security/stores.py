"""Key stores and trust stores as OpenSSL wants them. PEM as it is, PKCS12 with `cryptography`, JKS not at all."""

from __future__ import annotations

import os
import secrets
import ssl
import tempfile
from pathlib import Path
from typing import Any

from oncelog.client.errors import SecurityError
from oncelog.client.security.options import Store

_PEM = b"-----BEGIN "
_JAVA_MAGICS = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")


def load_truststore(context: ssl.SSLContext, store: Store) -> None:
    content = _content(store)
    if _is_pem(store, content):
        if store.password:
            raise SecurityError("ssl.truststore.password was given, but a PEM trust store has none")
        text = content.decode("ascii", "replace")
    else:
        text = _truststore_from_pkcs12(store, content)
    try:
        context.load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError):
        raise SecurityError(f"{_name(store)} has no certificate that can be read") from None


def load_keystore(context: ssl.SSLContext, store: Store) -> None:
    content = _content(store)
    password = store.key_password
    if not _is_pem(store, content):
        password = secrets.token_hex(16)
        content = _keystore_from_pkcs12(store, content, password)
    elif store.password:
        raise SecurityError("ssl.keystore.password was given, but a PEM key store has ssl.key.password")
    # OpenSSL takes keys from files only. The directory is the user's own, and gone at once.
    with tempfile.TemporaryDirectory(prefix="oncelog-") as directory:
        path = Path(directory, "keystore.pem")
        path.touch(0o600)
        path.write_bytes(content)
        try:
            # An empty password, and not none at all, keeps OpenSSL from asking for one at the terminal.
            context.load_cert_chain(path, password=password or "")
        except (ssl.SSLError, ValueError, OSError):
            how = "is ssl.key.password right?" if store.key_password else "an encrypted key needs ssl.key.password"
            raise SecurityError(f"{_name(store)} has no key with its certificate that can be read; {how}") from None


def _content(store: Store) -> bytes:
    if store.location is None:
        return "\n".join(part for part in (store.key, store.certificates) if part).encode()
    try:
        return Path(store.location).read_bytes()
    except OSError as error:
        raise SecurityError(f"{store.setting}.location {store.location}: {error.strerror or error}") from None


def _is_pem(store: Store, content: bytes) -> bool:
    """Java too looks into the file where its type is not PEM."""
    if content.startswith(_JAVA_MAGICS):
        name = os.path.basename(store.location or "store.jks")
        raise SecurityError(
            f"{_name(store)} is a JKS store, which only Java reads; convert it: keytool -importkeystore "
            f"-srckeystore {name} -destkeystore {name.removesuffix('.jks')}.p12 -deststoretype PKCS12"
        )
    is_pem = _PEM in content
    if store.type is not None and is_pem != (store.type == "PEM"):
        is_what = "a PEM file" if is_pem else "none"
        raise SecurityError(f"{store.setting}.type is {store.type}, but {_name(store)} is {is_what}")
    return is_pem


def _name(store: Store) -> str:
    return store.location or f"the text of {store.setting}"


def _pkcs12(store: Store, content: bytes) -> Any:
    try:
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise SecurityError(
            f"{_name(store)} is no PEM file; for PKCS12 install oncelog[security], or convert it: "
            "openssl pkcs12 -in STORE -out STORE.pem"
        ) from None
    try:
        return pkcs12.load_pkcs12(content, store.password.encode() if store.password else None)
    except ValueError:
        raise SecurityError(f"{_name(store)} cannot be read as PKCS12; is {store.setting}.password right?") from None


def _truststore_from_pkcs12(store: Store, content: bytes) -> str:
    found = _pkcs12(store, content)
    from cryptography.hazmat.primitives.serialization import Encoding

    held = [each.certificate for each in (found.cert, *found.additional_certs) if each is not None]
    return "".join(certificate.public_bytes(Encoding.PEM).decode() for certificate in held)


def _keystore_from_pkcs12(store: Store, content: bytes, password: str) -> bytes:
    """The key stays encrypted, with a password of our own, on its way through a file."""
    found = _pkcs12(store, content)
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

    if found.key is None or found.cert is None:
        raise SecurityError(f"{_name(store)} has no key with a certificate")
    key = found.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password.encode()))
    chain = [each.certificate.public_bytes(Encoding.PEM) for each in (found.cert, *found.additional_certs)]
    return b"".join((key, *chain))
