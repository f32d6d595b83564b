"""A broker that says what a test wants it to say, on a real socket."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

from oncelog.client.addresses import Address
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.codec import decode, encode
from oncelog.protocol.headers import decode_request_rest, decode_request_start, encode_response_header
from oncelog.protocol.messages import request_class
from oncelog.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from oncelog.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from oncelog.protocol.schema import Message

Answer = Message | bytes | None
"""A message in the request's version, a raw frame, or None to close the connection."""

VERSIONS = [
    ApiVersion(api_key=ApiKey.PRODUCE, min_version=3, max_version=9),
    ApiVersion(api_key=ApiKey.METADATA, min_version=0, max_version=9),
    ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=4),
]
TOPIC = "faked"


class FakeBroker:
    """`answer` is called with each request; what it does not answer (NotImplemented) is answered as usual."""

    def __init__(
        self, answer: Callable[[Any], Any] = lambda request: NotImplemented, *, host: str = "127.0.0.1"
    ) -> None:
        self.requests: list[Message] = []
        self._answer = answer
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, 0), family=family)
        self.address = Address(host, self._listener.getsockname()[1])
        self._threads: list[threading.Thread] = []
        self._connections: list[socket.socket] = []
        self._start(self._accept)

    def __enter__(self) -> FakeBroker:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for connection in self._connections:
            connection.close()

    def _start(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            self._start(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection.makefile("rb") as stream:
            while size := stream.read(4):
                frame = memoryview(stream.read(struct.unpack(">i", size)[0]))
                key, version, correlation_id = decode_request_start(frame)
                declared = request_class(ApiKey(key))
                _, position = decode_request_rest(frame, version in declared.FLEXIBLE)
                request = decode(declared, version, frame, position)
                self.requests.append(request)
                answer = self._answer(request)
                if answer is NotImplemented:
                    answer = self.usual(request)
                if answer is None:
                    connection.shutdown(socket.SHUT_RDWR)
                    return
                if isinstance(answer, Message):
                    header = encode_response_header(key, correlation_id, version in declared.FLEXIBLE)
                    body = header + encode(answer, version)
                    answer = struct.pack(">i", len(body)) + body
                connection.sendall(answer)

    def usual(self, request: Message) -> Answer:
        if request.API_KEY == ApiKey.API_VERSIONS:
            return ApiVersionsResponse(api_keys=VERSIONS)
        if request.API_KEY == ApiKey.METADATA:
            partition = MetadataResponsePartition(
                partition_index=0, leader_id=1, leader_epoch=0, replica_nodes=[1], isr_nodes=[1]
            )
            return MetadataResponse(
                brokers=[MetadataResponseBroker(node_id=1, host=self.address.host, port=self.address.port)],
                controller_id=1,
                topics=[MetadataResponseTopic(name=TOPIC, partitions=[partition])],
            )
        return None
