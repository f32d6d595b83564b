"""SASL on a connection: the handshake names a mechanism, then PLAIN (RFC 4616) or SCRAM (RFC 5802) messages follow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.client.errors import SecurityError, UnsupportedRequest, known_code
from oncelog.client.security.options import SecurityOptions
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from oncelog.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from oncelog.client.connection import Connection


def authenticate(connection: Connection, options: SecurityOptions) -> int:
    """How long the broker takes requests before it wants to hear this again, in ms (KIP-368); 0: for ever."""
    assert options.credentials is not None
    username, password = options.credentials
    _shake_hands(connection, options.mechanism)
    if options.mechanism == "PLAIN":
        return _step(connection, f"\0{username}\0{password}", options).session_lifetime_ms
    return _scram(connection, options)


def _shake_hands(connection: Connection, mechanism: str) -> None:
    no_sasl = f"{connection.address} does not want SASL on this port; security.protocol must be PLAINTEXT or SSL"
    try:
        answer = connection.send(SaslHandshakeRequest(mechanism=mechanism), SaslHandshakeResponse)
    except UnsupportedRequest:
        raise SecurityError(no_sasl) from None
    if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        raise SecurityError(no_sasl)
    if answer.error_code:
        has = ", ".join(answer.mechanisms) or "none"
        raise SecurityError(f"{connection.address} does not offer sasl.mechanism {mechanism}; it has {has}")


def _step(connection: Connection, message: str, options: SecurityOptions) -> SaslAuthenticateResponse:
    answer = connection.send(SaslAuthenticateRequest(auth_bytes=message.encode()), SaslAuthenticateResponse)
    if answer.error_code:
        assert options.credentials is not None
        code = known_code(answer.error_code)
        why = "" if code == ErrorCode.SASL_AUTHENTICATION_FAILED else f" ({code.name})"
        # The broker's own message is not shown: nobody can know what it repeats.
        raise SecurityError(
            f"{connection.address} does not let user {options.credentials.username!r} in with {options.mechanism}{why}"
            ": wrong user or password in sasl.jaas.config"
        )
    return answer


def _scram(connection: Connection, options: SecurityOptions) -> int:
    try:
        from scramp import ScramClient, ScramException
    except ImportError:
        raise SecurityError(f"{options.mechanism} needs scramp: pip install 'oncelog[security]'") from None
    assert options.credentials is not None
    try:
        client = ScramClient([options.mechanism], *options.credentials)
        client.set_server_first(_text(_step(connection, client.get_client_first(), options)))
        answer = _step(connection, client.get_client_final(), options)
        client.set_server_final(_text(answer))
    except (ScramException, ValueError):
        # Its words may quote the exchange.
        raise SecurityError(
            f"{connection.address} failed to prove with {options.mechanism} that it knows the password of user "
            f"{options.credentials.username!r}"
        ) from None
    return answer.session_lifetime_ms


def _text(answer: SaslAuthenticateResponse) -> str:
    return bytes(answer.auth_bytes).decode()
