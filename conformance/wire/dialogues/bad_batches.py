"""The rows of the list of bad input that are about record batches, in every version of Produce."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from conformance.wire.state import batch, produce_request
from oncelog.protocol.records.batch import HEADER_SIZE, compute_crc
from oncelog.protocol.records.compression import Compression
from oncelog.protocol.records.varint import encode_varint

if TYPE_CHECKING:
    from conformance.wire.talk import Talk

LENGTH, CRC, ATTRIBUTES, LAST_OFFSET_DELTA, RECORD_COUNT = 8, 17, 21, 23, 57
_OVERHEAD = 12
_CODECS = [codec for codec in Compression if codec is not Compression.NONE]


def bad_batches(talk: Talk, version: int) -> None:
    """Headers that contradict themselves, codecs that do not exist, bodies that are none."""
    topic = talk.create_topic(talk.fresh("topic"))

    def send(label: str, records: bytes, **options: Any) -> None:
        talk.say(produce_request(talk, topic, records, **options), version, label)

    send("row 25: an error without acks", patched(batch(b"a"), CRC, ">I", 0, seal=False), acks=0)
    send("row 27: a length below the smallest", patched(batch(b"a"), LENGTH, ">i", 10, seal=False))
    send("row 31: no records by the count", patched(batch(b"a"), RECORD_COUNT, ">i", 0))
    send("row 31: more records by the count", patched(batch(b"a"), RECORD_COUNT, ">i", 2))
    send("row 31: a negative count", patched(batch(b"a"), RECORD_COUNT, ">i", -1))
    send("row 31: another last offset", patched(batch(b"a"), LAST_OFFSET_DELTA, ">i", 1))
    send("row 31: an offset out of turn", with_body(batch(b"a"), record(0, 5, -1, -1, 0)))
    send("row 33: a transaction without producer", batch(b"a", transactional=True), transactional_id="w-nobody")
    for codec_id in (5, 6, 7):
        send(f"row 35: compression {codec_id}", patched(batch(b"a"), ATTRIBUTES, ">h", codec_id))
    for codec in _CODECS:
        garbage = with_body(batch(b"a", compression=codec), b"these bytes are not compressed")
        send(f"row 36: garbage in place of {codec.name.lower()}", garbage)
    for label, body in MALFORMED.items():
        send(f"row 38: {label}", with_body(batch(b"a"), body))
    large = talk.create_topic(talk.fresh("topic"), configs={"segment.bytes": "1048576", "max.message.bytes": "5000000"})
    too_large = batch(b"x" * 1_100_000)
    talk.say(produce_request(talk, large, too_large), version, "row 41: larger than a segment")


def record(*fields: int) -> bytes:
    """One record of varints, whose length fits: timestamp, offset, key, value, number of headers and so on."""
    body = bytearray(b"\0")
    for field in fields:
        body += encode_varint(field)
    out = bytearray()
    out += encode_varint(len(body))
    return bytes(out + body)


MALFORMED = {
    "a record longer than the batch": b"\xc8\x01" + bytes(10),
    "a record of negative length": b"\x01" + bytes(10),
    "a key of length -2": record(0, 0, -2, -1, 0),
    "a value beyond the record": record(0, 0, -1, 1000, 0),
    "a negative number of headers": record(0, 0, -1, -1, -1),
    "more headers than bytes": record(0, 0, -1, -1, 2**31 - 1),
    "a header without key": record(0, 0, -1, -1, 1, -1, -1),
    "bytes behind the last record": record(0, 0, -1, -1, 0) + b"\0",
    "no record at all": b"",
}


def patched(data: bytes, position: int, kind: str, value: int, *, seal: bool = True) -> bytes:
    """The batch with one value replaced and, if it is to be sealed, a CRC that fits."""
    out = bytearray(data)
    struct.pack_into(kind, out, position, value)
    if seal:
        struct.pack_into(">I", out, CRC, compute_crc(memoryview(out)))
    return bytes(out)


def with_body(data: bytes, body: bytes) -> bytes:
    return patched(data[:HEADER_SIZE] + body, LENGTH, ">i", HEADER_SIZE + len(body) - _OVERHEAD)
