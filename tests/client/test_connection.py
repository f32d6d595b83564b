from __future__ import annotations

import socket
import struct
from typing import Any

import pytest

from oncelog.client.addresses import Address, parse_address
from oncelog.client.connection import Connection
from oncelog.client.errors import (
    BrokerUnavailable,
    ClientError,
    ConnectionLost,
    RequestTimeout,
    UnsupportedRequest,
)
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.codec import encode
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from oncelog.protocol.messages.fetch import FetchRequest, FetchResponse
from oncelog.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.client.fake_broker import VERSIONS, FakeBroker


def test_the_highest_common_version_is_used(bootstrap_servers: str) -> None:
    with Connection(parse_address(bootstrap_servers)) as connection:
        theirs = connection.versions[ApiKey.METADATA]
        assert connection.version_for(MetadataRequest) == min(theirs.last, MetadataRequest.VERSIONS.last)
        assert connection.send(MetadataRequest(topics=[]), MetadataResponse).brokers


def test_several_requests_may_be_under_way(bootstrap_servers: str) -> None:
    with Connection(parse_address(bootstrap_servers)) as connection:
        named = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        first = connection.begin(MetadataRequest(topics=[]), MetadataResponse)
        second = connection.begin(named, ApiVersionsResponse)
        assert second.wait().api_keys
        assert first.wait().brokers


def test_a_broker_that_does_not_know_our_version_is_asked_again_in_its_own() -> None:
    asked: list[int] = []

    def answer(request: Any) -> Any:
        if request.API_KEY == ApiKey.API_VERSIONS and not asked:
            asked.append(1)
            refusal = ApiVersionsResponse(
                error_code=ErrorCode.UNSUPPORTED_VERSION,
                api_keys=[ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=2)],
            )
            body = struct.pack(">i", 1) + encode(refusal, 0)
            return struct.pack(">i", len(body)) + body
        return NotImplemented

    with FakeBroker(answer) as broker, Connection(broker.address) as connection:
        assert set(connection.versions) == {known.api_key for known in VERSIONS}
        assert connection.versions[ApiKey.METADATA].last == 9
    assert len(broker.requests) == 2


def test_ipv6() -> None:
    try:
        broker = FakeBroker(host="::1")
    except OSError:
        pytest.skip("this machine has no IPv6")
    with broker, Connection(broker.address) as connection:
        assert connection.supports(ApiKey.METADATA)


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    expected = rf"no broker answers at 127\.0\.0\.1:{port}; is it running\? \(oncelog serve\)"
    with pytest.raises(BrokerUnavailable, match=expected):
        Connection(Address("127.0.0.1", port))


def test_a_host_that_has_no_address() -> None:
    with pytest.raises(BrokerUnavailable, match=r"nowhere\.invalid cannot be resolved"):
        Connection(Address("nowhere.invalid", 9092))


def test_an_answer_that_does_not_come() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        pytest.raises(RequestTimeout, match="did not answer in time"),
    ):
        Connection(Address("127.0.0.1", listener.getsockname()[1]), timeout_ms=50)


def test_a_connection_that_is_closed_can_be_told_and_is_not_used_again() -> None:
    def answer(request: Any) -> Any:
        return None if request.API_KEY == ApiKey.METADATA else NotImplemented

    with FakeBroker(answer) as broker, Connection(broker.address) as connection:
        first = connection.begin(MetadataRequest(topics=[]), MetadataResponse)
        with pytest.raises(ConnectionLost):
            first.wait()
        assert connection.closed


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak Kafka's protocol"),
        (struct.pack(">ii", 4, 77), "answer 77 came where 1 was due"),
        (struct.pack(">iih", 6, 1, 0), "malformed"),
    ],
)
def test_something_else_answers(frame: bytes, expected: str) -> None:
    with FakeBroker(lambda request: frame) as broker, pytest.raises(ClientError, match=expected):
        Connection(broker.address, timeout_ms=2000)


def test_an_api_that_the_broker_does_not_have() -> None:
    with FakeBroker() as broker, Connection(broker.address) as connection:
        with pytest.raises(UnsupportedRequest, match="has no Fetch"):
            connection.send(FetchRequest(), FetchResponse)
        assert not connection.closed


def test_versions_that_do_not_overlap() -> None:
    def answer(request: Any) -> Any:
        future = ApiVersion(api_key=ApiKey.METADATA, min_version=90, max_version=99)
        return ApiVersionsResponse(api_keys=[future])

    with (
        FakeBroker(answer) as broker,
        Connection(broker.address) as connection,
        pytest.raises(UnsupportedRequest, match="Metadata 90-99, this client 0-13"),
    ):
        connection.send(MetadataRequest(), MetadataResponse)
