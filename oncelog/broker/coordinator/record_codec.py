"""Bytes of the records of `__consumer_offsets` and `__transaction_state`.

A key is its type (int16, `API_KEY` of its declaration) and its fields in version 0; a value is its version
(int16) and its fields. Kafka's tools read the two topics by the same rule.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence

from oncelog.broker.coordinator.contract import CoordinatorRecord
from oncelog.protocol.codec import decode, encode
from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.records.batch import HEADER_SIZE
from oncelog.protocol.schema import Message

_INT16 = struct.Struct(">h")
_RECORD_OVERHEAD_MAX = 32
"""What a record in a batch takes besides its key and value, at most."""

EncodedRecord = tuple[bytes, bytes | None]
RecordTypes = dict[int, tuple[type[Message], type[Message]]]
"""Key and value classes by record type."""


def record_types(*pairs: tuple[type[Message], type[Message]]) -> RecordTypes:
    types: RecordTypes = {}
    for key, value in pairs:
        assert key.API_KEY is not None
        types[key.API_KEY] = (key, value)
    return types


def encode_record(record: CoordinatorRecord) -> EncodedRecord:
    """The record keeps its bytes, so that it is encoded once only."""
    if record.encoded is None:
        api_key = record.key.API_KEY
        assert api_key is not None
        key = _INT16.pack(api_key) + encode(record.key, 0)
        value = record.value
        encoded = None if value is None else _INT16.pack(record.value_version) + encode(value, record.value_version)
        record.encoded = key, encoded
    return record.encoded


def record_bytes_max(encoded: EncodedRecord) -> int:
    """What a record takes in a batch, at most."""
    key, value = encoded
    return len(key) + len(value or b"") + _RECORD_OVERHEAD_MAX


def batch_bytes_max(encoded: Iterable[EncodedRecord]) -> int:
    return HEADER_SIZE + sum(map(record_bytes_max, encoded))


def divide_records(encoded: Sequence[EncodedRecord], batch_size_bytes_max: int) -> Iterator[Sequence[EncodedRecord]]:
    """As many in each part as fit into a batch; one that is too large for any batch is alone."""
    start, size_bytes = 0, HEADER_SIZE
    for position, record in enumerate(encoded):
        record_bytes = record_bytes_max(record)
        if size_bytes + record_bytes > batch_size_bytes_max and position > start:
            yield encoded[start:position]
            start, size_bytes = position, HEADER_SIZE
        size_bytes += record_bytes
    yield encoded[start:]


def decode_record(types: RecordTypes, key: bytes, value: bytes | None) -> CoordinatorRecord | None:
    """None for a type or version of a later Kafka; ProtocolError for bytes that no Kafka wrote."""
    try:
        (record_type,) = _INT16.unpack_from(key)
        classes = types.get(record_type)
        if classes is None:
            return None
        key_class, value_class = classes
        decoded_key = decode(key_class, 0, key, _INT16.size)
        if value is None:
            return CoordinatorRecord(decoded_key, None)
        (version,) = _INT16.unpack_from(value)
    except struct.error:
        raise ProtocolError("a coordinator record is shorter than its type") from None
    if version not in value_class.VERSIONS:
        return None
    return CoordinatorRecord(decoded_key, decode(value_class, version, value, _INT16.size), version)
