"""One blocking connection to one broker: frames, correlation ids, and the versions both sides have.

Answers come in the order of the requests, so several may be under way: `begin` sends and returns at once,
`Pending.wait` reads answers up to its own. `send` does both.
"""

from __future__ import annotations

import math
import socket
import struct
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from oncelog import __version__
from oncelog.client.addresses import Address
from oncelog.client.errors import (
    BrokerUnavailable,
    ClientError,
    ConnectionLost,
    RequestTimeout,
    SecurityError,
    UnsupportedRequest,
    known_code,
)
from oncelog.client.security.options import PLAINTEXT, SecurityOptions
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.codec import Parts, decode, encode_into
from oncelog.protocol.errors import ErrorCode, KafkaError, ProtocolError
from oncelog.protocol.framing import frame
from oncelog.protocol.headers import decode_response_header, encode_request_header
from oncelog.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from oncelog.protocol.primitives import StoredBytes
from oncelog.protocol.schema import Message, Versions

if TYPE_CHECKING:
    import ssl

CLIENT_ID = "oncelog"
TIMEOUT_MS = 30_000
ANSWER_SIZE_BYTES_MAX = 256 * 1024 * 1024

_SIZE = struct.Struct(">i")
_UNSUPPORTED = struct.pack(">h", ErrorCode.UNSUPPORTED_VERSION)
_CORRELATION_ID_MAX = 2**31 - 1
_SECURITY_PROTOCOL = "security.protocol (on the command line in the file of --command-config)"
_TLS_RECORDS = (b"\x15\x03", b"\x16\x03")
"""How an alert and a handshake begin."""
_SESSION_PART = 0.85
"""The part of a SASL session after which it is renewed; Kafka's own clients do it after 85 to 95 %."""
_SESSION_S_MIN = 1.0
"""Brokers refuse to renew a session that is younger."""

M = TypeVar("M", bound=Message)


class Connection:
    """`versions` says what the broker has, by API key."""

    def __init__(
        self,
        address: Address,
        *,
        client_id: str = CLIENT_ID,
        timeout_ms: int = TIMEOUT_MS,
        security: SecurityOptions = PLAINTEXT,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`tls` is the context of `security`, for who makes many connections; it is made here if it is missing."""
        self.address = address
        self.timeout_ms = timeout_ms
        self.versions: dict[int, Versions] = {}
        self._client_id = client_id
        self._correlation_id = 0
        self._due: deque[Pending[Any]] = deque()
        self._security = security
        self._renewal_due = math.inf
        self._socket = self._open_socket()
        try:
            if security.protocol.has_tls:
                self._start_tls(tls)
            self._negotiate()
            if security.protocol.has_sasl:
                self._authenticate()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def closed(self) -> bool:
        return self._socket.fileno() < 0

    def close(self) -> None:
        self._socket.close()

    def supports(self, api: ApiKey) -> bool:
        return api in self.versions

    def version_for(self, request: type[Message]) -> int:
        """The highest version that both sides have."""
        assert request.API_KEY is not None
        theirs = self.versions.get(request.API_KEY)
        if theirs is None:
            raise UnsupportedRequest(f"the broker at {self.address} has no {ApiKey(request.API_KEY).camel}")
        ours = request.VERSIONS
        version = min(ours.last, theirs.last)
        if version < ours.first or version < theirs.first:
            raise UnsupportedRequest(
                f"the broker at {self.address} has {ApiKey(request.API_KEY).camel} "
                f"{theirs.first}-{theirs.last}, this client {ours.first}-{ours.last}"
            )
        return version

    def send(self, request: Message, response: type[M], *, timeout_ms: int | None = None) -> M:
        """Sends the request in the highest common version and waits for its answer."""
        return self.begin(request, response, timeout_ms=timeout_ms).wait()

    def begin(self, request: Message, response: type[M], *, timeout_ms: int | None = None) -> Pending[M]:
        """Sends the request; `timeout_ms` is the patience from now until the whole answer is here."""
        if not self._due and time.monotonic() > self._renewal_due:
            self._authenticate()
        version = self.version_for(type(request))
        pending = Pending(self, response, version, self._next_correlation_id(), timeout_ms or self.timeout_ms)
        self._write(request, version, pending.correlation_id)
        self._due.append(pending)
        return pending

    def send_without_answer(self, request: Message) -> None:
        """For Produce with acks=0, the one request that brokers do not answer."""
        self._write(request, self.version_for(type(request)), self._next_correlation_id())

    def read_until(self, pending: Pending[M]) -> None:
        """Reads answers, in the order of their requests, up to the one of `pending`."""
        while pending.answer is None:
            if self.closed or not self._due:
                raise ConnectionLost(f"the connection to {self.address} was closed")
            self._due[0].take(self._read_frame(pending.deadline))
            self._due.popleft()

    def fail(self, error: Exception) -> None:
        """After a failure the stream's state is unknown, so the connection cannot be used any more."""
        self._due.clear()
        self.close()
        raise error

    # -- the socket ------------------------------------------------------------------------------------------

    def _open_socket(self) -> socket.socket:
        try:
            opened = socket.create_connection(self.address, timeout=self.timeout_ms / 1000)
        except ConnectionRefusedError:
            raise BrokerUnavailable(f"no broker answers at {self.address}; is it running? (oncelog serve)") from None
        except socket.gaierror as error:
            reason = error.strerror or "unknown host"
            raise BrokerUnavailable(f"{self.address.host} cannot be resolved: {reason}; check the host name") from None
        except TimeoutError:
            patience = f"{self.timeout_ms / 1000:g} s"
            raise BrokerUnavailable(
                f"no connection to {self.address} within {patience}; check the address, and firewalls on the way"
            ) from None
        except OSError as error:
            raise BrokerUnavailable(f"{self.address} cannot be reached: {error.strerror or error}") from None
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return opened

    def _start_tls(self, context: ssl.SSLContext | None) -> None:
        from oncelog.client.security.tls import tls_context, wrap

        self._socket = wrap(self._socket, context or tls_context(self._security), self.address)

    def _authenticate(self) -> None:
        from oncelog.client.security.sasl import authenticate

        self._renewal_due = math.inf
        lifetime_ms = authenticate(self, self._security)
        if lifetime_ms > 0:
            self._renewal_due = time.monotonic() + max(lifetime_ms / 1000 * _SESSION_PART, _SESSION_S_MIN)

    def _next_correlation_id(self) -> int:
        self._correlation_id = self._correlation_id + 1 if self._correlation_id < _CORRELATION_ID_MAX else 1
        return self._correlation_id

    def _write(self, request: Message, version: int, correlation_id: int) -> None:
        assert request.API_KEY is not None
        flexible = version in request.FLEXIBLE
        parts: Parts = [encode_request_header(request.API_KEY, version, correlation_id, self._client_id, flexible)]
        encode_into(request, version, parts)
        try:
            self._socket.settimeout(self.timeout_ms / 1000)
            for part in frame(parts):
                assert not isinstance(part, StoredBytes)
                self._socket.sendall(part)
        except TimeoutError:
            self.fail(RequestTimeout(f"{self.address} takes no data"))
        except OSError as error:
            self.fail(self._lost(error))

    def _read_frame(self, deadline: float) -> memoryview:
        head = self._read_exactly(4, deadline)
        if head[:2] in _TLS_RECORDS and not self._security.protocol.has_tls:
            self.fail(SecurityError(f"{self.address} speaks TLS; set {_SECURITY_PROTOCOL} to SSL or SASL_SSL"))
        (size_bytes,) = _SIZE.unpack(head)
        if not 4 <= size_bytes <= ANSWER_SIZE_BYTES_MAX:
            self.fail(ClientError(f"{self.address} does not speak Kafka's protocol; check the port"))
        return memoryview(self._read_exactly(size_bytes, deadline))

    def _read_exactly(self, size_bytes: int, deadline: float) -> bytearray:
        data = bytearray(size_bytes)
        view = memoryview(data)
        position = 0
        try:
            while position < size_bytes:
                self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
                received = self._socket.recv_into(view[position:])
                if not received:
                    self.fail(ConnectionLost(f"{self.address} closed the connection{self._hint()}"))
                position += received
        except TimeoutError:
            self.fail(RequestTimeout(f"{self.address} did not answer in time; is the broker overloaded?"))
        except OSError as error:
            self.fail(self._lost(error))
        return data

    def _lost(self, error: OSError) -> ClientError:
        if self._security.protocol.has_tls:
            from oncelog.client.security.tls import refusal

            # With TLS 1.3 a broker refuses the client's certificate only after the handshake.
            refused = refusal(error, self.address)
            if refused is not None:
                return refused
        return ConnectionLost(f"the connection to {self.address} broke ({error.strerror or error}){self._hint()}")

    def _hint(self) -> str:
        """A listener with SASL tells its versions to anyone, and hangs up at the next request.

        What a broker says against a missing certificate can be lost when it hangs up.
        """
        if self._security.protocol.has_sasl or self._correlation_id > 2:
            return ""
        if self._security.protocol.has_tls:
            return " at the first request; does it want SASL, or a certificate (ssl.keystore.location)?"
        return f" at the first request; if the port wants TLS or SASL, set {_SECURITY_PROTOCOL}"

    # -- versions --------------------------------------------------------------------------------------------

    def _negotiate(self) -> None:
        """A broker that does not know our version says so in v0, with the versions that it has (KIP-511)."""
        answer = self._ask_versions(ApiVersionsRequest.VERSIONS.last)
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            theirs = [known for known in answer.api_keys if known.api_key == ApiKey.API_VERSIONS]
            answer = self._ask_versions(theirs[0].max_version if theirs else 0)
        if answer.error_code:
            raise KafkaError(known_code(answer.error_code), f"{self.address} refuses to tell its versions")
        self.versions = {known.api_key: Versions(known.min_version, known.max_version) for known in answer.api_keys}

    def _ask_versions(self, version: int) -> ApiVersionsResponse:
        self.versions = {ApiKey.API_VERSIONS: Versions(0, version)}
        request = ApiVersionsRequest(client_software_name=CLIENT_ID, client_software_version=__version__)
        return self.send(request, ApiVersionsResponse)


class Pending(Generic[M]):
    """A request whose answer is still to be read."""

    def __init__(
        self, connection: Connection, response: type[M], version: int, correlation_id: int, timeout_ms: int
    ) -> None:
        self.correlation_id = correlation_id
        self.deadline = time.monotonic() + timeout_ms / 1000
        self.answer: M | None = None
        self._connection = connection
        self._response = response
        self._version = version

    def wait(self) -> M:
        self._connection.read_until(self)
        assert self.answer is not None
        return self.answer

    def take(self, data: memoryview) -> None:
        """Decodes the answer out of its frame."""
        response = self._response
        assert response.API_KEY is not None
        try:
            flexible = self._version in response.FLEXIBLE
            correlation_id, position = decode_response_header(data, response.API_KEY, flexible)
            if correlation_id != self.correlation_id:
                raise ProtocolError(f"answer {correlation_id} came where {self.correlation_id} was due")
            self.answer = decode(response, self._decodable_version(data, position), data, position)
        except ProtocolError as error:
            self._connection.fail(ClientError(f"{self._connection.address} sent a malformed answer: {error}"))

    def _decodable_version(self, data: memoryview, position: int) -> int:
        """ApiVersions alone may be answered in another version than it was asked in."""
        refused = self._response.API_KEY == ApiKey.API_VERSIONS and bytes(data[position : position + 2]) == _UNSUPPORTED
        return 0 if refused else self._version
