"""Frames that are no good requests: versions of the future, unknown APIs, bytes that are missing or too many."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.wire.good_requests import D
from conformance.wire.state import PLAIN
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.compiler import encode
from oncelog.protocol.headers import encode_request_header

if TYPE_CHECKING:
    from conformance.wire.talk import Talk

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


def _metadata_frame(client_id: str | None) -> bytes:
    request = D.metadata.MetadataRequest(
        topics=[D.metadata.MetadataRequestTopic(name=PLAIN)], allow_auto_topic_creation=False
    )
    return encode_request_header(ApiKey.METADATA, 9, 1, client_id, True) + encode(request, 9)
