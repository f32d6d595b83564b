"""Values survive encoding and decoding in every version of every message, and kafka-python reads the same."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.protocol.codec import decode, decode_from, encode, encode_into
from oncelog.protocol.codec.decoder_source import DecoderSource
from oncelog.protocol.codec.encoder_source import EncoderSource
from oncelog.protocol.codec.source import Source
from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.messages.end_txn import EndTxnRequest
from oncelog.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from oncelog.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.protocol.schema import Message
from tests.protocol.declarations import EXAMPLES, MESSAGE_VERSIONS, name_of, sample, values
from tests.protocol.kafka_python import kafka_python_messages, recode


@pytest.mark.parametrize(("message", "version"), MESSAGE_VERSIONS, ids=name_of)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_round_trip(message: type[Message], version: int, data: st.DataObject) -> None:
    value = data.draw(values(message, version))
    encoded = encode(value, version)
    decoded, position = decode_from(message, version, encoded)
    assert decoded == value
    assert position == len(encoded)
    assert encode(decoded, version) == encoded == encode(value, version)


CROSS_CHECKED = [
    (message, version)
    for message, version in MESSAGE_VERSIONS
    if (theirs := kafka_python_messages().get(message.__name__)) and version <= theirs.max_version
]


def test_kafka_python_knows_most_versions() -> None:
    assert len(CROSS_CHECKED) >= 480


@pytest.mark.parametrize(("message", "version"), CROSS_CHECKED, ids=name_of)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_kafka_python_reads_and_writes_the_same_bytes(
    message: type[Message], version: int, data: st.DataObject
) -> None:
    value = data.draw(values(message, version, own=False))
    if message.__name__ == "ApiVersionsResponse":
        # Clients read this answer as version 0 when it carries an error.
        value.error_code = 0
    encoded = encode(value, version)
    assert recode(message.__name__, version, encoded) == encoded


def test_known_bytes_of_an_old_version() -> None:
    request = EndTxnRequest(transactional_id="t", producer_id=5, producer_epoch=1, committed=True)
    assert encode(request, 0).hex(" ") == "00 01 74 00 00 00 00 00 00 00 05 00 01 01"


def test_known_bytes_of_a_flexible_version() -> None:
    request = EndTxnRequest(transactional_id="t", producer_id=5, producer_epoch=1, committed=True)
    assert encode(request, 3).hex(" ") == "02 74 00 00 00 00 00 00 00 05 00 01 01 00"


def test_records_are_views_of_the_frame() -> None:
    batch = PartitionProduceData(index=0, records=b"payload")
    request = ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=[batch])])
    frame = bytearray(encode(request, 9))
    records = decode(ProduceRequest, 9, frame).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    frame[frame.index(b"payload") : frame.index(b"payload") + 7] = b"changed"
    assert records == b"changed"


def test_records_are_encoded_without_a_copy() -> None:
    """Unless there are few of them."""
    records = memoryview(bytes(10_000))
    topic = FetchableTopicResponse(partitions=[PartitionData(records=records)])
    parts: list[Any] = []
    encode_into(FetchResponse(responses=[topic]), 16, parts)
    assert any(part is records for part in parts)


def test_bytes_behind_a_message_are_ignored() -> None:
    encoded = encode(sample(EndTxnRequest, 3), 3)
    assert decode_from(EndTxnRequest, 3, b"before" + encoded + b"behind", 6) == (
        sample(EndTxnRequest, 3),
        6 + len(encoded),
    )


def test_a_version_that_is_not_declared_is_our_mistake() -> None:
    with pytest.raises(AssertionError, match="EndTxnRequest has no version 6"):
        encode(EndTxnRequest(), 6)


@pytest.mark.parametrize("source", [DecoderSource, EncoderSource])
def test_a_traceback_shows_generated_code(source: type[Source]) -> None:
    function = source(EndTxnRequest, 3).compile()
    assert inspect.getsource(function).startswith(f"def {source.direction}_EndTxnRequest_v3(")


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        ("46" + "".join(f"{tag:02x}00" for tag in range(40, 110)), "more tagged fields"),
        ("02 07 00 07 00", "repeated or out of order"),
        ("02 07 00 06 00", "repeated or out of order"),
        ("01 07 05 00", "longer than the bytes left"),
        ("80 80 80 80 80 01", "longer than 5 bytes"),
        ("ff ff ff ff 7f", "32 bits"),
    ],
)
@pytest.mark.parametrize(("message", "version"), [(EndTxnRequest, 3), (FetchResponse, 16)], ids=name_of)
def test_bad_tags(message: type[Message], version: int, tail: str, reason: str) -> None:
    body = encode(message(), version)[:-1]
    with pytest.raises(ProtocolError, match=reason):
        decode(message, version, body + bytes.fromhex(tail))


@pytest.mark.parametrize(("message", "version"), [(EndTxnRequest, 3), (FetchResponse, 16)], ids=name_of)
def test_unknown_tags_are_skipped(message: type[Message], version: int) -> None:
    body = encode(message(), version)[:-1]
    tail = bytes.fromhex("02 63 03 aa bb cc e4 01 00")
    assert decode_from(message, version, body + tail) == (message(), len(body) + len(tail))
