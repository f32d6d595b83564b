"""TLS on a connection, and what its failures mean for people."""

from __future__ import annotations

import socket
import ssl

from oncelog.client.addresses import Address
from oncelog.client.errors import BrokerUnavailable, ClientError, SecurityError
from oncelog.client.security.options import SecurityOptions
from oncelog.client.security.stores import load_keystore, load_truststore

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_HOST_MISMATCHES = (62, 64)
"""X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH of OpenSSL."""
_NOT_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "UNKNOWN_PROTOCOL")


def tls_context(options: SecurityOptions) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = options.checks_host_name
    context.minimum_version = _VERSIONS[options.tls_versions[0]]
    context.maximum_version = _VERSIONS[options.tls_versions[-1]]
    if options.truststore is None:
        context.load_default_certs()
    else:
        load_truststore(context, options.truststore)
    if options.keystore is not None:
        load_keystore(context, options.keystore)
    return context


def wrap(plain: socket.socket, context: ssl.SSLContext, address: Address) -> ssl.SSLSocket:
    """The handshake, within the socket's timeout. The plain socket is closed if it fails."""
    try:
        return context.wrap_socket(plain, server_hostname=address.host)
    except TimeoutError:
        error: ClientError = BrokerUnavailable(f"{address} does not answer the TLS handshake; is it a port with SSL?")
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionError):
        # Which of them depends on the version of Python. A broker that dies looks the same, so this may pass.
        error = BrokerUnavailable(
            f"{address} closed the connection in the TLS handshake; is it a port with SSL? If not, security.protocol "
            "must be PLAINTEXT or SASL_PLAINTEXT"
        )
    except ssl.SSLError as failure:
        error = refusal(failure, address) or BrokerUnavailable(
            f"the TLS handshake with {address} failed: {_why(failure)}"
        )
    except OSError as failure:
        error = BrokerUnavailable(f"the TLS handshake with {address} failed: {failure.strerror or failure}")
    plain.close()
    raise error


def refusal(failure: OSError, address: Address) -> SecurityError | None:
    """What trying again cannot mend; None if it is something else."""
    if isinstance(failure, ssl.SSLCertVerificationError):
        return _untrusted(failure, address)
    if not isinstance(failure, ssl.SSLError):
        return None
    reason = failure.reason or ""
    if reason in _NOT_TLS:
        return SecurityError(
            f"{address} does not speak TLS; is it a port with SSL? If not, security.protocol must be PLAINTEXT or "
            "SASL_PLAINTEXT"
        )
    if ("ALERT" in reason and "CERTIFICATE" in reason) or "UNKNOWN_CA" in reason:
        return SecurityError(
            f"{address} wants another certificate of this client, or one at all ({_why(failure)}); see "
            "ssl.keystore.location"
        )
    if "ALERT" in reason:
        return SecurityError(f"{address} refuses the TLS connection: {_why(failure)}")
    return None


def _untrusted(failure: ssl.SSLCertVerificationError, address: Address) -> SecurityError:
    if failure.verify_code in _HOST_MISMATCHES:
        return SecurityError(
            f"the certificate of {address} is not for {address.host!r}; use a name that is in it "
            "(ssl.endpoint.identification.algorithm empty would switch the check off)"
        )
    return SecurityError(
        f"the certificate of {address} is not trusted: {failure.verify_message}; ssl.truststore.location names the "
        "certificate authorities"
    )


def _why(failure: ssl.SSLError) -> str:
    return (failure.reason or "no reason given").lower().replace("_", " ")
