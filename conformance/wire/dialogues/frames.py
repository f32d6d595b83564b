"""Frames that are no good requests: versions of the future, unknown APIs, bytes that are missing or too many."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from conformance.wire.good_requests import D
from conformance.wire.state import PLAIN
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.codec import encode
from oncelog.protocol.headers import encode_request_header

if TYPE_CHECKING:
    from conformance.wire.talk import Talk

_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")
FUTURE = 99
UNKNOWN_KEY = 999


def frames(talk: Talk, version: int) -> None:
    """Independent of the version, thus only once. KIP-511 says how ApiVersions is answered in another version."""
    if version > 0:
        return
    for flexible in (False, True):
        head = encode_request_header(ApiKey.API_VERSIONS, FUTURE, 1, "wire", flexible)
        talk.exchange(head, ApiKey.API_VERSIONS, 0, f"ApiVersions of the future{', flexible' if flexible else ''}")
    for key in (ApiKey.METADATA, ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.JOIN_GROUP):
        head = encode_request_header(key, FUTURE, 1, "wire", True)
        talk.exchange(head + bytes(40), key, 0, f"{key.camel} of the future")
    for key, former in ((ApiKey.PRODUCE, 2), (ApiKey.FETCH, 3), (ApiKey.CREATE_TOPICS, 1)):
        head = encode_request_header(key, former, 1, "wire", False)
        talk.exchange(head + bytes(40), key, 0, f"{key.camel} of the past")
    head = encode_request_header(UNKNOWN_KEY, 0, 1, "wire", False)
    talk.exchange(head, ApiKey.METADATA, 0, "an unknown API")
    good = _metadata_frame("wire")
    talk.exchange(good[:-3], ApiKey.METADATA, 9, "bytes are missing")
    talk.exchange(good + b"more", ApiKey.METADATA, 9, "bytes are left")
    talk.exchange(_metadata_frame(None), ApiKey.METADATA, 9, "no client id")
    talk.exchange(good[:6], ApiKey.METADATA, 9, "a header that is cut off")
    talk.exchange(b"", ApiKey.METADATA, 9, "nothing at all")
    for label, size in {"a negative size": -1, "a size above the limit": 104_857_601}.items():
        talk.exchange_bytes(_INT32.pack(size), ApiKey.METADATA, 0, f"row 1: {label}")
    talk.exchange_bytes(b"\x16\x03\x01\x02\x00\x01\x00", ApiKey.METADATA, 0, "row 1: a TLS hello")
    talk.exchange_bytes(b"GET / HTTP/1.1\r\n\r\n", ApiKey.METADATA, 0, "row 1: an HTTP request")
    _malformed_bodies(talk)


def _malformed_bodies(talk: Talk) -> None:
    """In version 1 a body begins with the number of topics in four bytes, in version 9 with a varint."""
    old = encode_request_header(ApiKey.METADATA, 1, 1, "wire", False)
    new = encode_request_header(ApiKey.METADATA, 9, 1, "wire", True)
    one_topic, rest = _INT32.pack(1), b"\0\0\0"
    for label, version, payload in (
        ("row 8: an array of length -2", 1, old + _INT32.pack(-2)),
        ("row 9: an array longer than the bytes that are left", 1, old + _INT32.pack(2**31 - 1)),
        ("row 12: a tagged field longer than the bytes that are left", 9, new + b"\x01" + rest + b"\x01\x00\x7f"),
        ("row 12: a tagged field twice", 9, new + b"\x01" + rest + b"\x02\x05\x00\x05\x00"),
        ("row 12: a varint of six bytes", 9, new + b"\x80\x80\x80\x80\x80\x01"),
        ("row 13: a string longer than the bytes that are left", 1, old + one_topic + _INT16.pack(100) + b"short"),
        ("row 13: a string of length -2", 1, old + one_topic + _INT16.pack(-2)),
        ("row 13: a string that must not be null", 1, old + one_topic + _INT16.pack(-1)),
        ("row 13: a string that is no UTF-8", 1, old + one_topic + _INT16.pack(2) + b"\xff\xfe"),
    ):
        talk.exchange(payload, ApiKey.METADATA, version, label)
    for label, client_id in {"of 32 kB": "x" * 32_000, "of two lines": "a\nb"}.items():
        talk.exchange(_metadata_frame(client_id), ApiKey.METADATA, 9, f"row 15: a client id {label}")


def _metadata_frame(client_id: str | None) -> bytes:
    request = D.metadata.MetadataRequest(
        topics=[D.metadata.MetadataRequestTopic(name=PLAIN)], allow_auto_topic_creation=False
    )
    return encode_request_header(ApiKey.METADATA, 9, 1, client_id, True) + encode(request, 9)
