"""The fast paths in C give what the Python code gives, or None."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.protocol.errors import KafkaError
from oncelog.protocol.records import batch as batches
from oncelog.protocol.records import validation
from oncelog.protocol.records.batch import CRC_POSITION, BatchHeader, build_batch, compute_crc, read_header
from oncelog.protocol.records.compression import Compression
from oncelog.protocol.records.record import Record

_native = pytest.importorskip("oncelog.protocol.records._native", reason="the C extension is not built")

T0 = 1_700_000_000_000
INT64 = st.integers(-(2**63), 2**63 - 1)
FIELD = st.none() | st.binary(max_size=200)
TIMES = st.integers(T0 - 2**40, T0 + 2**40) | st.integers(0, 2**63 - 1)


def record(timestamp: int = T0, key: bytes | None = b"k", value: bytes | None = b"v", **more: Any) -> Record:
    return Record(0, timestamp, key, value, **more)


RECORDS = st.lists(st.builds(record, TIMES, FIELD, FIELD), min_size=1, max_size=5)


@given(records=RECORDS, base_timestamp=st.integers(0, 2**63 - 1))
def test_records_are_encoded_alike(records: list[Record], base_timestamp: int) -> None:
    expected = batches._encode_records(enumerate(records), base_timestamp)
    assert _native.encode_plain_records(records, base_timestamp) == expected


@pytest.mark.parametrize(
    "unusual",
    [
        record(headers=[("h", b"x")]),
        record(attributes=1),
        record(timestamp=-1),
        record(timestamp=2**63),
        record(value=bytearray(b"v")),  # type: ignore[arg-type]
        record(timestamp=1.5),  # type: ignore[arg-type]
        record(headers=None),
        (1, 2, 3),
        None,
    ],
)
def test_other_records_are_left_to_python(unusual: Any) -> None:
    assert _native.encode_plain_records([record(), unusual], T0) is None


def outcome(batch: bytes, *, fast: bool, **rules: Any) -> tuple[BatchHeader | None, object, bytes]:
    """The header or the refusal, and what became of the bytes."""
    buffer = bytearray(batch)
    arguments = {"compacted": False, "max_message_bytes": 1000, "allow_zstd": True} | rules
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(validation, "read_plain_batch", _native.read_plain_batch if fast else lambda *_: None)
        try:
            header, error = validation.check_produce_records(memoryview(buffer), **arguments), None
        except KafkaError as refusal:
            header, error = None, (refusal.code, refusal.message)
    return header, error, bytes(buffer)


@given(
    records=RECORDS,
    codec=st.sampled_from([Compression.NONE, Compression.NONE, Compression.GZIP]),
    producer=st.sampled_from(
        [(-1, -1, -1, False), (7, 0, 0, False), (7, 3, 9, True), (-1, -1, -1, True), (7, 0, -1, False)]
    ),
    flips=st.lists(st.integers(0, 8 * 150), max_size=2),
    mends_crc=st.booleans(),
    compacted=st.booleans(),
    bounds=st.tuples(INT64, INT64) | st.just((-(2**64), 2**64)),
)
def test_a_batch_is_judged_alike(
    records: list[Record],
    codec: Compression,
    producer: tuple[int, int, int, bool],
    flips: list[int],
    mends_crc: bool,
    compacted: bool,
    bounds: tuple[int, int],
) -> None:
    producer_id, epoch, sequence, transactional = producer
    batch = build_batch(
        records,
        compression=codec,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )
    for flip in flips:
        batch[flip // 8 % len(batch)] ^= 1 << flip % 8
    if mends_crc:
        struct.pack_into(">I", batch, CRC_POSITION, compute_crc(memoryview(batch)))
    rules = {"compacted": compacted, "timestamp_ms_min": bounds[0], "timestamp_ms_max": bounds[1]}
    assert outcome(batch, fast=True, **rules) == outcome(batch, fast=False, **rules)


@given(data=st.binary(max_size=200))
def test_any_bytes_are_judged_alike(data: bytes) -> None:
    assert outcome(data, fast=True) == outcome(data, fast=False)


def test_a_plain_batch_takes_the_fast_path() -> None:
    batch = build_batch([record(), record()], producer_id=7, producer_epoch=1, base_sequence=5, transactional=True)
    found = _native.read_plain_batch(memoryview(batch), False, 0, 2**62)
    assert BatchHeader(*found) == read_header(batch)


def test_the_largest_numbers_are_read_as_they_are() -> None:
    batch = build_batch([record()], leader_epoch=2**31 - 1, producer_id=2**63 - 1, producer_epoch=2**15 - 1)
    struct.pack_into(">i", batch, 53, 2**31 - 1)
    struct.pack_into(">I", batch, CRC_POSITION, 2**32 - 1)
    assert BatchHeader(*_native.read_plain_batch(batch, False, 0, 2**62)) == read_header(batch)
