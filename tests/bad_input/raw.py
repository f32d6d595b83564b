"""A client that sends whatever it is told to, well-formed or not, over a plain blocking socket."""

from __future__ import annotations

import itertools
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self, TypeVar

from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.codec import decode, encode
from oncelog.protocol.headers import decode_response_header, encode_request_header
from oncelog.protocol.messages import response_class
from oncelog.protocol.schema import Message

TIMEOUT_SECONDS = 60.0

_SIZE = struct.Struct(">i")

T = TypeVar("T")


def framed(payload: bytes) -> bytes:
    return _SIZE.pack(len(payload)) + payload


def request_payload(request: Message, version: int, *, correlation_id: int = 1, client_id: str | None = "raw") -> bytes:
    """Header and body of a well-formed request, to send or to damage."""
    key = request.API_KEY
    assert key is not None
    header = encode_request_header(key, version, correlation_id, client_id, version in type(request).FLEXIBLE)
    return header + encode(request, version)


def decode_answer(payload: bytes, key: int, version: int) -> tuple[int, Any]:
    """Correlation id and body of an answer."""
    response = response_class(ApiKey(key))
    correlation_id, position = decode_response_header(payload, key, version in response.FLEXIBLE)
    return correlation_id, decode(response, version, payload, position)


class RawClient:
    def __init__(self, port: int, *, receive_buffer_bytes: int | None = None) -> None:
        self.socket = socket.socket()
        if receive_buffer_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.socket.settimeout(TIMEOUT_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_ids = itertools.count(1)
        self.socket.connect(("127.0.0.1", port))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send_bytes(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send_frame(self, payload: bytes) -> None:
        self.send_bytes(framed(payload))

    def read_frame(self) -> bytes | None:
        """The next answer; None if the broker closed the connection instead."""
        try:
            head = self.read_bytes(4)
            return self.read_bytes(_SIZE.unpack(head)[0]) if head else None
        except (ConnectionResetError, BrokenPipeError):
            return None

    def send(self, request: Message, version: int, *, client_id: str | None = "raw") -> int:
        """Send a well-formed request and return its correlation id."""
        correlation_id = next(self._correlation_ids)
        self.send_frame(request_payload(request, version, correlation_id=correlation_id, client_id=client_id))
        return correlation_id

    def call(self, request: Message, version: int, *, client_id: str | None = "raw") -> Any:
        """Send a well-formed request and return its answer."""
        sent = self.send(request, version, client_id=client_id)
        return self.read_answer(request, version, sent)

    def read_answer(self, request: Message, version: int, sent: int) -> Any:
        """The next answer, which is that to the request sent under this correlation id."""
        payload = self.read_frame()
        if payload is None:
            raise ConnectionError("the broker closed the connection instead of answering")
        assert request.API_KEY is not None
        correlation_id, response = decode_answer(payload, request.API_KEY, version)
        assert correlation_id == sent
        return response

    def assert_closed(self) -> None:
        """The broker drops the connection, and says nothing before it does."""
        assert self.read_frame() is None, "the broker answered"

    def read_bytes(self, size_bytes: int) -> bytes:
        """So many bytes; none at all if the broker closed the connection before they came."""
        parts = bytearray()
        while len(parts) < size_bytes:
            data = self.socket.recv(size_bytes - len(parts))
            if not data:
                return b""
            parts += data
        return bytes(parts)


def tolerating_resets() -> suppress:
    """For sending to a broker that may close the connection at any time."""
    return suppress(ConnectionResetError, BrokenPipeError)


def wait_until(condition: Callable[[], T], what: str, seconds: float = TIMEOUT_SECONDS) -> T:
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"waited {seconds} s in vain until {what}"
        time.sleep(0.01)
