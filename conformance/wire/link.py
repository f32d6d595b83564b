"""A plain connection to one broker, which also tells when a request gets no answer."""

from __future__ import annotations

import socket
import struct
from typing import Any

from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.codec import decode_from, encode
from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.headers import decode_response_header, encode_request_header
from oncelog.protocol.messages import response_class
from oncelog.protocol.schema import Message

CLIENT_ID = "wire"
PATIENCE_S = 30.0
"""How long an answer may take on a busy machine."""
_SIZE = struct.Struct(">i")


class NoAnswer(Exception):
    """The broker closed the connection, kept silent, or answered what cannot be decoded; the text says which."""


class Link:
    """Sends requests one at a time. After a request without an answer, the next one has a new connection."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._address = (host, int(port))
        self._socket: socket.socket | None = None
        self._correlation_id = 0

    def ask(self, request: Message, version: int, timeout_s: float = PATIENCE_S) -> Any:
        """The decoded answer, or NoAnswer."""
        assert request.API_KEY is not None
        self._correlation_id += 1
        header = encode_request_header(
            request.API_KEY, version, self._correlation_id, CLIENT_ID, version in type(request).FLEXIBLE
        )
        frame = self.exchange(header + encode(request, version), timeout_s)
        return decode_answer(frame, request.API_KEY, version)

    def exchange(self, payload: bytes, timeout_s: float = PATIENCE_S) -> bytes:
        """Send a frame of these bytes and return the frame that comes back."""
        return self.exchange_bytes(_SIZE.pack(len(payload)) + payload, timeout_s)

    def exchange_bytes(self, data: bytes, timeout_s: float = PATIENCE_S) -> bytes:
        """Send bytes that may be no frame, and return the frame that comes back."""
        connection = self._socket or self._connect()
        connection.settimeout(timeout_s)
        try:
            connection.sendall(data)
            (size_bytes,) = _SIZE.unpack(self._read(connection, _SIZE.size))
            return self._read(connection, size_bytes)
        except TimeoutError:
            self.close()
            raise NoAnswer("silent") from None
        except (ConnectionError, NoAnswer):
            self.close()
            raise NoAnswer("closed") from None

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connect(self) -> socket.socket:
        self._socket = socket.create_connection(self._address, PATIENCE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._socket

    @staticmethod
    def _read(connection: socket.socket, size_bytes: int) -> bytes:
        parts = bytearray()
        while len(parts) < size_bytes:
            data = connection.recv(size_bytes - len(parts))
            if not data:
                raise NoAnswer("closed")
            parts += data
        return bytes(parts)


def decode_answer(payload: bytes, key: int, version: int) -> Any:
    """The body of an answer; bytes that the declaration does not account for make it malformed."""
    response = response_class(ApiKey(key))
    try:
        _, position = decode_response_header(payload, key, version in response.FLEXIBLE)
        value, end = decode_from(response, version, payload, position)
    except ProtocolError as error:
        raise NoAnswer(f"malformed: {error}") from None
    if end != len(payload):
        raise NoAnswer(f"malformed: {len(payload) - end} bytes are left over")
    return value
