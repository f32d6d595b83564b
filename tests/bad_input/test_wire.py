"""Rows 1-2 and 5-15, 17: frames, headers and bodies that are not what they should be."""

from __future__ import annotations

import logging
import struct
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from oncelog.broker.handlers import APIS
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.headers import encode_request_header
from oncelog.protocol.messages import request_class
from oncelog.protocol.messages.api_versions import ApiVersionsRequest
from oncelog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from oncelog.protocol.primitives import Sized, encode_uvarint
from oncelog.protocol.schema import ArrayType, Message, Struct, StructType
from tests.bad_input.live import LiveBroker
from tests.bad_input.raw import RawClient, decode_answer, framed, request_payload, tolerating_resets
from tests.bad_input.requests import batch, produce

INT32 = struct.Struct(">i")
INT16 = struct.Struct(">h")

TLS_CLIENT_HELLO = bytes.fromhex("16 03 01 02 00 01 00 01 fc 03 03") + bytes(512)
JVM_HEAP_DUMP = b"JAVA PROFILE 1.0.2\0" + bytes(64)

METADATA_OLD = 1
"""A version with fixed lengths; METADATA_FLEXIBLE has varints and tagged fields."""
METADATA_FLEXIBLE = 9
LIST_OFFSETS_OLD, LIST_OFFSETS_FLEXIBLE = 1, 6


def header(key: ApiKey, version: int, *, flexible: bool = False) -> bytes:
    return encode_request_header(key, version, 1, "raw", flexible)


@contextmanager
def little_memory(size_bytes_max: int) -> Iterator[None]:
    """The broker runs in this process, so what it allocates is seen."""
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
        assert peak < size_bytes_max
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "data",
    [
        INT32.pack(-1),
        INT32.pack(-(2**31)),
        INT32.pack(104_857_601),
        INT32.pack(2**31 - 1),
        TLS_CLIENT_HELLO,
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /topics HTTP/1.1\r\n\r\n",
        JVM_HEAP_DUMP,
        b"SSH-2.0-OpenSSH_9.2\r\n",
    ],
)
def test_a_frame_size_that_cannot_be_one(client: RawClient, data: bytes) -> None:
    client.send_bytes(data)
    client.assert_closed()


@pytest.mark.parametrize("size_bytes", range(8))
def test_a_frame_too_short_for_a_header(client: RawClient, size_bytes: int) -> None:
    client.send_frame(bytes(size_bytes))
    client.assert_closed()


@pytest.mark.parametrize("size_bytes", [8, 9])
def test_a_header_without_its_client_id(client: RawClient, size_bytes: int) -> None:
    client.send_frame(header(ApiKey.METADATA, METADATA_OLD)[:size_bytes])
    client.assert_closed()


@pytest.mark.parametrize(
    ("key", "version"),
    [(-1, 0), (4, 0), (9999, 0), (32767, 0), (ApiKey.METADATA, 14), (ApiKey.METADATA, -1), (ApiKey.PRODUCE, 2)],
)
def test_an_api_or_a_version_that_is_not_there(client: RawClient, key: int, version: int) -> None:
    client.send_frame(encode_request_header(key, version, 1, "raw", False) + bytes(20))
    client.assert_closed()


def test_a_declared_api_without_a_handler(client: RawClient) -> None:
    missing = next(key for key in ApiKey if key not in APIS)
    request = request_class(missing)
    client.send_frame(header(missing, request.VERSIONS.first) + bytes(20))
    client.assert_closed()


@pytest.mark.parametrize("version", [5, 99, 32767, -1])
def test_api_versions_of_the_future_is_answered_in_version_0(client: RawClient, version: int) -> None:
    client.send_frame(encode_request_header(ApiKey.API_VERSIONS, version, 7, "raw", True) + b"\xff" * 10)
    payload = client.read_frame()
    assert payload is not None
    correlation_id, response = decode_answer(payload, ApiKey.API_VERSIONS, 0)
    assert correlation_id == 7
    assert response.error_code == 35
    assert {api.api_key for api in response.api_keys} == {ApiKey.API_VERSIONS}


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("name", ["", "-a", "a-", "a b", "a\nb", "ä", ".", "a" * 200 + "!"])
def test_a_malformed_software_name(client: RawClient, name: str, version: int) -> None:
    for request in (
        ApiVersionsRequest(client_software_name=name, client_software_version="1"),
        ApiVersionsRequest(client_software_name="fine", client_software_version=name),
    ):
        assert client.call(request, version).error_code == 42
    good = ApiVersionsRequest(client_software_name="apache-kafka-java", client_software_version="4.3.0")
    assert client.call(good, version).error_code == 0


@pytest.mark.parametrize("count", [-1, -2, -(2**31)])
def test_an_array_of_negative_length(client: RawClient, count: int) -> None:
    client.send_frame(header(ApiKey.LIST_OFFSETS, LIST_OFFSETS_OLD) + INT32.pack(-1) + INT32.pack(count))
    client.assert_closed()


def test_a_null_array_that_may_not_be_null(client: RawClient) -> None:
    body = INT32.pack(-1) + b"\0" + b"\0" + b"\0"
    client.send_frame(header(ApiKey.LIST_OFFSETS, LIST_OFFSETS_FLEXIBLE, flexible=True) + body)
    client.assert_closed()


def test_an_array_longer_than_the_bytes_that_are_left(broker: LiveBroker) -> None:
    old = header(ApiKey.METADATA, METADATA_OLD) + INT32.pack(2**31 - 1) + bytes(100)
    flexible = header(ApiKey.METADATA, METADATA_FLEXIBLE, flexible=True) + encode_uvarint(2**31) + bytes(100)
    for payload in (old, flexible):
        with RawClient(broker.port) as client, little_memory(1_000_000):
            client.send_frame(payload)
            client.assert_closed()


def test_fifty_million_elements_of_one_byte(client: RawClient) -> None:
    count = 50_000_000
    head = header(ApiKey.DELETE_TOPICS, 4, flexible=True) + encode_uvarint(count + 1)
    payload = framed(head + b"\x01" * count + bytes(5))
    with little_memory(200_000_000):
        with tolerating_resets():
            client.send_bytes(payload)
        client.assert_closed()


def test_twenty_million_tagged_fields_in_a_header(client: RawClient) -> None:
    count = 20_000_000
    head = header(ApiKey.METADATA, METADATA_FLEXIBLE, flexible=True)[:-1] + encode_uvarint(count)
    payload = framed(head + bytes(2 * count))
    with little_memory(200_000_000):
        with tolerating_resets():
            client.send_bytes(payload)
        client.assert_closed()


@pytest.mark.parametrize("place", ["header", "body"])
@pytest.mark.parametrize(
    "tags",
    [
        b"\x01\x00\x7f",  # one tag that claims 127 bytes
        b"\x01\x00\xff\xff\xff\xff\x0f",  # one that claims 4 GiB
        b"\x02\x05\x00\x05\x00",  # the same tag twice
        b"\x02\x05\x00\x04\x00",  # not in order
        b"\x80\x80\x80\x80\x80\x01",  # a varint of six bytes
        b"\xff\xff\xff\xff\x7f",  # one of more than 32 bits
        encode_uvarint(65) + b"".join(bytes((tag, 0)) for tag in range(65)),
    ],
)
def test_malformed_tagged_fields(client: RawClient, place: str, tags: bytes) -> None:
    start = header(ApiKey.METADATA, METADATA_FLEXIBLE, flexible=True)
    body = b"\x00" + b"\x00\x00\x00"  # all topics, no more
    payload = start[:-1] + tags + body + b"\0" if place == "header" else start + body + tags
    client.send_frame(payload)
    client.assert_closed()


def test_unknown_tagged_fields_are_skipped(client: RawClient) -> None:
    start = header(ApiKey.METADATA, METADATA_FLEXIBLE, flexible=True)
    tags = b"\x02\x07\x01x\xf0\x01\x00"
    client.send_frame(start[:-1] + tags + b"\x01" + b"\x00\x00\x00" + tags)
    payload = client.read_frame()
    assert payload is not None
    _, response = decode_answer(payload, ApiKey.METADATA, METADATA_FLEXIBLE)
    assert response.topics == []


def topic_name_old(length: int, data: bytes) -> bytes:
    return header(ApiKey.METADATA, METADATA_OLD) + INT32.pack(1) + INT16.pack(length) + data


def topic_name_flexible(length: int, data: bytes) -> bytes:
    head = header(ApiKey.METADATA, METADATA_FLEXIBLE, flexible=True)
    return head + b"\x02" + encode_uvarint(length + 1) + data + b"\0" + b"\0\0\0" + b"\0"


@pytest.mark.parametrize(
    "payload",
    [
        topic_name_old(100, b"short"),
        topic_name_old(-1, b""),
        topic_name_old(-2, b""),
        topic_name_old(-(2**15), b""),
        topic_name_old(2, b"\xff\xfe"),
        topic_name_old(3, b"\xed\xa0\x80"),
        topic_name_flexible(100, b"short"),
        topic_name_flexible(-1, b""),
        topic_name_flexible(2**31, b"short"),
        topic_name_flexible(4, b"\xf8\x88\x80\x80"),
        INT16.pack(ApiKey.METADATA) + INT16.pack(METADATA_OLD) + INT32.pack(1) + INT16.pack(-2),
        INT16.pack(ApiKey.METADATA) + INT16.pack(METADATA_OLD) + INT32.pack(1) + INT16.pack(1) + b"\xff",
        INT16.pack(ApiKey.METADATA) + INT16.pack(METADATA_OLD) + INT32.pack(1) + INT16.pack(999) + b"x",
    ],
)
def test_a_malformed_string(client: RawClient, payload: bytes) -> None:
    client.send_frame(payload)
    client.assert_closed()


@pytest.mark.parametrize("version", [METADATA_OLD, METADATA_FLEXIBLE])
def test_bytes_behind_the_body_are_ignored(client: RawClient, version: int) -> None:
    request = MetadataRequest(topics=[])
    client.send_frame(request_payload(request, version) + b"what is this?")
    payload = client.read_frame()
    assert payload is not None
    assert decode_answer(payload, ApiKey.METADATA, version)[1].topics == []
    assert client.call(request, version).topics == []


@pytest.mark.parametrize("client_id", [None, "", "x" * 32767, "a\nb\r\n\x1b[31mred\0", "ключ"])
@pytest.mark.parametrize("version", [METADATA_OLD, METADATA_FLEXIBLE])
def test_strange_client_ids_are_served(client: RawClient, client_id: str | None, version: int) -> None:
    response = client.call(MetadataRequest(topics=[]), version, client_id=client_id)
    assert response.topics == []


def test_what_a_client_sends_stays_on_one_line_of_the_log(client: RawClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        client.send(produce("x\n2026-01-01 ERROR forged " + "y" * 5000, batch(), acks=0), 8)
        client.assert_closed()
    (line,) = [entry.getMessage() for entry in caplog.records if "closed the connection" in entry.getMessage()]
    assert "forged" in line
    assert line.isprintable()
    assert len(line) < 500


def emptied(struct_class: type[Struct]) -> Struct:
    """An instance with defaults for everything, and empty arrays where null is the default."""
    value = struct_class()
    for field in struct_class.fields():
        if isinstance(field.type, ArrayType):
            setattr(value, field.name, [])
        elif isinstance(field.type, StructType) and getattr(value, field.name) is not None:
            setattr(value, field.name, emptied(field.type.struct))
    return value


EVERY_VERSION = [(api.key, version) for api in APIS.values() for version in range(api.version_min, api.version_max + 1)]


REFUSED = {
    ApiKey.SASL_HANDSHAKE: 34,
    ApiKey.DESCRIBE_ACLS: 54,
    ApiKey.SASL_AUTHENTICATE: 34,
    ApiKey.CREATE_DELEGATION_TOKEN: 64,
    ApiKey.RENEW_DELEGATION_TOKEN: 64,
    ApiKey.EXPIRE_DELEGATION_TOKEN: 64,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: 64,
    ApiKey.UNREGISTER_BROKER: 102,
}
"""Without a login and an authorizer, whatever they ask; and there is no broker 0."""


def test_every_array_of_every_request_empty(broker: LiveBroker) -> None:
    with RawClient(broker.port) as client:
        for key, version in EVERY_VERSION:
            request = emptied(request_class(key))
            assert isinstance(request, Message)
            if key == ApiKey.PRODUCE:
                request.acks = -1  # type: ignore[attr-defined]
            response = client.call(request, version)
            if key in REFUSED:
                assert response.error_code == REFUSED[key], (key, version)
            elif not any(isinstance(field.type, Sized) for field in type(request).fields()):
                # The others name a group or a producer, and an empty name is an error of its own.
                assert getattr(response, "error_code", 0) == 0, (key, version)


def test_one_empty_element_in_every_array_of_every_request(broker: LiveBroker) -> None:
    """Names that are empty, partition 0, no records: refused, but answered."""
    with RawClient(broker.port) as client:
        for key, version in EVERY_VERSION:
            request = emptied(request_class(key))
            assert isinstance(request, Message)
            for field in type(request).fields():
                if isinstance(field.type, ArrayType) and isinstance(field.type.element, StructType):
                    setattr(request, field.name, [emptied(field.type.element.struct)])
            if key == ApiKey.PRODUCE:
                request.acks = -1  # type: ignore[attr-defined]
            client.call(request, version)


def test_requests_that_dribble_in_byte_by_byte(broker: LiveBroker) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="neighbour")])
    with RawClient(broker.port) as client:
        for version in (METADATA_OLD, METADATA_FLEXIBLE):
            for byte in framed(request_payload(request, version)):
                client.send_bytes(bytes((byte,)))
            payload = client.read_frame()
            assert payload is not None
            (topic,) = decode_answer(payload, ApiKey.METADATA, version)[1].topics
            assert topic.error_code == 0


def test_telemetry_is_not_offered(client: RawClient) -> None:
    """A broker that takes no metrics from clients cannot be given too many of them (KIP-714)."""
    offered = {api.api_key for api in client.call(ApiVersionsRequest(), 0).api_keys}
    assert not offered & {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}
    client.send_frame(header(ApiKey.PUSH_TELEMETRY, 0, flexible=True) + bytes(64))
    client.assert_closed()
