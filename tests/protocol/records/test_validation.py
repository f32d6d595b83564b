from __future__ import annotations

import random
import struct
import zlib
from typing import TYPE_CHECKING

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from hypothesis import given
from hypothesis import strategies as st

from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.records.batch import (
    HEADER,
    HEADER_SIZE,
    BatchHeader,
    TimestampType,
    assemble_batch,
    build_batch,
    compute_crc,
    read_header,
)
from oncelog.protocol.records.compression import Compression, compress
from oncelog.protocol.records.record import Record
from oncelog.protocol.records.validation import BadRecordsError, check_produce_batch, check_produce_records

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.usefixtures("scanner")

T0 = 1_700_000_000_000
RECORDS = [Record(i, T0 + i, b"k%d" % i, b"value" * i, [("h", b"x")]) for i in range(5)]
PRODUCER = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}


def check(
    records: bytes | bytearray | memoryview | None,
    *,
    compacted: bool = False,
    max_message_bytes: int = 1_048_588,
    allow_zstd: bool = True,
    **bounds: int,
) -> BatchHeader:
    return check_produce_records(
        records, compacted=compacted, max_message_bytes=max_message_bytes, allow_zstd=allow_zstd, **bounds
    )


def code_of(function: Callable[[], object]) -> ErrorCode:
    with pytest.raises(KafkaError) as raised:
        function()
    assert raised.value.message, "a refusal has a sentence for people"
    return raised.value.code


def changed(batch: bytearray, **fields: int) -> bytearray:
    """The batch with other header fields and a CRC that fits them."""
    header = read_header(batch)._replace(**fields)
    out = bytearray(HEADER.pack(*header)) + batch[HEADER_SIZE:]
    struct.pack_into(">I", out, 17, compute_crc(memoryview(out)))
    return out


def with_body(body: bytes, **fields: int) -> bytearray:
    batch = build_batch(RECORDS)[:HEADER_SIZE] + body
    return changed(batch, batch_length=len(batch) - 12, **fields)


@pytest.mark.parametrize("codec", Compression)
def test_good_batches_are_accepted_and_left_alone(codec: Compression) -> None:
    batch = build_batch(RECORDS, compression=codec, transactional=True, **PRODUCER)
    before = bytes(batch)
    assert check(memoryview(batch), compacted=True) == read_header(before)
    check_produce_batch(memoryview(batch), compacted=True)
    assert batch == before


@pytest.mark.parametrize("name", ["transactional", "gzip", "snappy", "lz4", "zstd"])
def test_batches_of_java_are_accepted(name: str, java_batches: dict[str, bytes]) -> None:
    assert check(java_batches[name]) == read_header(java_batches[name])


@pytest.mark.parametrize("codec", Compression)
def test_batches_of_aiokafka_are_accepted(codec: Compression) -> None:
    builder = AiokafkaBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1_000_000,
    )
    for i in range(300):
        builder.append(i, T0 + i, None, b"some value " * 10, headers=[])
    assert check(bytearray(builder.build())).record_count == 300


# The numbers are the rows of the table of bad input.


@pytest.mark.parametrize("records", [None, b"", b"x" * 11, bytes(8) + struct.pack(">i", 49) + bytes(4)])
def test_row_26_no_records(records: bytes | None) -> None:
    assert code_of(lambda: check(records)) == ErrorCode.INVALID_RECORD


def test_row_26_two_batches() -> None:
    batch = build_batch(RECORDS)
    assert code_of(lambda: check(batch + batch)) == ErrorCode.INVALID_RECORD
    assert code_of(lambda: check(batch + b"x")) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("magic", [0, 1])
def test_row_26_old_magic(magic: int) -> None:
    batch = build_batch(RECORDS)
    batch[16] = magic
    assert code_of(lambda: check(batch)) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("magic", [3, 127, 128, 255])
def test_row_27_unknown_magic(magic: int) -> None:
    batch = build_batch(RECORDS)
    batch[16] = magic
    assert code_of(lambda: check(batch)) == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("batch_length", [-(2**31), -1, 0, 13])
def test_row_27_length_below_any_format(batch_length: int) -> None:
    batch = build_batch(RECORDS)
    struct.pack_into(">i", batch, 8, batch_length)
    assert code_of(lambda: check(batch)) == ErrorCode.CORRUPT_MESSAGE
    assert code_of(lambda: check(batch[:12])) == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("batch_length", [14, 48])
def test_row_27_smaller_than_a_header(batch_length: int) -> None:
    batch = build_batch(RECORDS)
    struct.pack_into(">i", batch, 8, batch_length)
    assert code_of(lambda: check(batch[: 12 + batch_length])) == ErrorCode.CORRUPT_MESSAGE


def test_row_28_length_past_the_buffer() -> None:
    batch = build_batch(RECORDS)
    for end in range(17, len(batch)):
        assert code_of(lambda end=end: check(batch[:end])) == ErrorCode.INVALID_RECORD
    struct.pack_into(">i", batch, 8, 2**31 - 1)
    assert code_of(lambda: check(batch)) == ErrorCode.INVALID_RECORD


def test_row_29_wrong_crc() -> None:
    batch = build_batch(RECORDS)
    for position in (17, 20, 24, 60, HEADER_SIZE, len(batch) - 1):
        damaged = bytearray(batch)
        damaged[position] ^= 0x80
        assert code_of(lambda damaged=damaged: check(damaged)) == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("base_offset", [1, -1, 2**62])
def test_row_30_base_offset(base_offset: int) -> None:
    batch = build_batch(RECORDS, base_offset=base_offset)
    assert code_of(lambda: check(batch)) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    "fields",
    [
        {"record_count": 0, "last_offset_delta": -1},
        {"record_count": -1, "last_offset_delta": -2},
        {"record_count": 5, "last_offset_delta": 5},
        {"record_count": 6},
        {"record_count": 6, "last_offset_delta": 5},
        {"record_count": 4, "last_offset_delta": 3},
        {"record_count": 2**31 - 1, "last_offset_delta": 2**31 - 2},
    ],
)
def test_row_31_record_count(fields: dict[str, int]) -> None:
    batch = changed(build_batch(RECORDS), **fields)
    assert code_of(lambda: check(batch)) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", Compression)
def test_row_31_offset_deltas(codec: Compression) -> None:
    record = bytes.fromhex("0c 00 00 00 01 01 00")
    body = compress(codec, record + record)
    batch = with_body(body, record_count=2, last_offset_delta=1, attributes=int(codec))
    assert code_of(lambda: check(batch)) == ErrorCode.INVALID_RECORD


def test_row_32_control_batch() -> None:
    batch = build_batch(RECORDS, control=True, transactional=True, **PRODUCER)
    assert code_of(lambda: check(batch)) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    "producer",
    [
        {"producer_id": 7, "producer_epoch": 0, "base_sequence": -1},
        {"producer_id": 7, "producer_epoch": -1, "base_sequence": 0},
        {"transactional": True},
    ],
)
def test_row_33_producer_fields(producer: dict[str, int]) -> None:
    batch = build_batch(RECORDS, **producer)
    assert code_of(lambda: check(batch)) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec_id", [5, 6, 7])
def test_row_35_unknown_compression(codec_id: int) -> None:
    batch = changed(build_batch(RECORDS), attributes=codec_id)
    assert code_of(lambda: check(batch)) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert code_of(lambda: check_produce_batch(batch, compacted=False)) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_row_35_zstd_for_old_produce_versions() -> None:
    batch = build_batch(RECORDS, compression=Compression.ZSTD)
    assert code_of(lambda: check(batch, allow_zstd=False)) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_row_36_garbage_instead_of_compressed_records(codec: int) -> None:
    for body in (b"", b"garbage" * 20, build_batch(RECORDS)[HEADER_SIZE:]):
        batch = with_body(bytes(body), attributes=codec)
        assert code_of(lambda batch=batch: check(batch)) == ErrorCode.INVALID_RECORD
        assert code_of(lambda batch=batch: check_produce_batch(batch, compacted=False)) == ErrorCode.INVALID_RECORD


def test_row_37_bomb() -> None:
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = deflate.compress(bytes(1024 * 1024)) + deflate.flush(zlib.Z_FULL_FLUSH)
    bomb = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff" + block * 900 + b"\x03\x00" + bytes(8)
    batch = with_body(bomb, attributes=1)
    assert len(batch) < 1_048_588
    assert code_of(lambda: check(batch)) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize(
    "body",
    [
        pytest.param("0e 00 00 00 01 01 00", id="record length past the end"),
        pytest.param("0c 00 00 00 03 01 00", id="key length -2"),
        pytest.param("0c 00 00 00 01 01 01", id="header count -1"),
        pytest.param("0c 00 00 00 01 01 7e", id="header count past the end"),
        pytest.param("10 00 00 00 01 01 02 01 01", id="null header key"),
        pytest.param("0a 00 00 00 01 01 00", id="record length too short"),
    ],
)
def test_row_38_malformed_records(codec: Compression, body: str) -> None:
    packed = compress(codec, bytes.fromhex(body))
    batch = with_body(packed, record_count=1, last_offset_delta=0, attributes=int(codec))
    assert code_of(lambda: check(batch)) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", Compression)
def test_row_39_null_key_on_a_compacted_topic(codec: Compression) -> None:
    batch = build_batch([*RECORDS, Record(5, T0, None, b"v")], compression=codec)
    assert check(batch).record_count == 6
    assert code_of(lambda: check(batch, compacted=True)) == ErrorCode.INVALID_RECORD


def test_row_40_timestamps() -> None:
    batch = build_batch(RECORDS)
    assert check(batch, timestamp_ms_min=T0, timestamp_ms_max=T0 + 4)
    assert code_of(lambda: check(batch, timestamp_ms_min=T0 + 1)) == ErrorCode.INVALID_TIMESTAMP
    assert code_of(lambda: check(batch, timestamp_ms_max=T0 + 3)) == ErrorCode.INVALID_TIMESTAMP


def test_all_records_that_a_topic_does_not_take_are_named() -> None:
    records = [*RECORDS, Record(5, T0, None, b"v"), Record(6, T0 + 90, b"k", b"v"), Record(7, -1, None, b"v")]
    with pytest.raises(BadRecordsError) as raised:
        check(build_batch(records), compacted=True)
    assert (raised.value.code, [bad.position for bad in raised.value.bad]) == (ErrorCode.INVALID_RECORD, [5, 7])
    with pytest.raises(BadRecordsError) as raised:
        check(build_batch(records), compacted=True, timestamp_ms_max=T0 + 50)
    assert (raised.value.code, [bad.position for bad in raised.value.bad]) == (ErrorCode.INVALID_TIMESTAMP, [5, 6, 7])


def test_of_very_many_bad_records_the_first_thousand_are_named() -> None:
    records = [Record(index, T0, b"k", None) for index in range(10_005)]
    records += [Record(10_005 + index, T0, None, None) for index in range(1500)]
    with pytest.raises(BadRecordsError) as raised:
        check(build_batch(records), compacted=True)
    assert [bad.position for bad in raised.value.bad] == list(range(10_005, 11_005))


def test_a_record_without_key_and_with_a_late_timestamp_lacks_its_key() -> None:
    """As in Kafka, where the key is looked at first."""
    with pytest.raises(BadRecordsError) as raised:
        check(build_batch([Record(0, T0, None, b"v")]), compacted=True, timestamp_ms_max=T0 - 1)
    assert raised.value.code == ErrorCode.INVALID_RECORD
    assert "without key" in raised.value.bad[0].reason


@pytest.mark.parametrize("codec", Compression)
def test_a_malformed_record_behind_bad_ones_is_what_counts(codec: Compression) -> None:
    good = build_batch([Record(0, T0, None, b"v")])[HEADER_SIZE:]
    header = read_header(build_batch([Record(0, T0, None, b"v")] * 2, compression=codec))
    batch = assemble_batch(header, good + good)
    with pytest.raises(KafkaError, match="record 1 of the batch: its offset delta") as raised:
        check(batch, compacted=True)
    assert raised.value.code == ErrorCode.INVALID_RECORD


def test_row_40_bounds_beyond_64_bits_bound_nothing() -> None:
    assert check(build_batch(RECORDS), timestamp_ms_min=-(2**80), timestamp_ms_max=2**80)


def test_clients_may_not_set_log_append_time() -> None:
    batch = build_batch(RECORDS, timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert code_of(lambda: check(batch)) == ErrorCode.INVALID_TIMESTAMP


def test_row_41_too_large() -> None:
    batch = build_batch(RECORDS)
    assert check(batch, max_message_bytes=len(batch))
    assert code_of(lambda: check(batch, max_message_bytes=len(batch) - 1)) == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize("claimed", [-1, T0, T0 + 3, T0 + 5, 2**62])
def test_wrong_max_timestamp_is_corrected(codec: Compression, claimed: int) -> None:
    good = build_batch(RECORDS, compression=codec)
    batch = changed(good, max_timestamp=claimed)
    header = check(memoryview(batch))
    assert header == read_header(good)
    assert batch == good


def test_wrong_max_timestamp_in_bytes_that_cannot_be_corrected() -> None:
    batch = bytes(changed(build_batch(RECORDS), max_timestamp=T0))
    assert code_of(lambda: check(batch)) == ErrorCode.INVALID_RECORD


def test_check_produce_batch_refuses_what_is_no_batch() -> None:
    assert code_of(lambda: check_produce_batch(b"x" * 70, compacted=False)) == ErrorCode.CORRUPT_MESSAGE


@given(st.binary(max_size=200))
def test_any_bytes_give_a_header_or_a_kafka_error(data: bytes) -> None:
    for function in (check, lambda records: check_produce_batch(records, compacted=True)):
        try:
            function(data)
        except KafkaError:
            continue


@pytest.mark.parametrize("codec", Compression)
def test_damaged_batches_give_a_header_or_a_kafka_error(codec: Compression) -> None:
    source = random.Random(int(codec))
    batch = build_batch(RECORDS, compression=codec, **PRODUCER)
    for _ in range(600):
        damaged = bytearray(batch)
        for _ in range(source.randrange(1, 4)):
            damaged[source.randrange(len(batch))] = source.randrange(256)
        # With a CRC that fits, the damage reaches the checks behind it.
        struct.pack_into(">I", damaged, 17, compute_crc(memoryview(damaged)))
        try:
            header = check(damaged)
        except KafkaError:
            continue
        assert header == read_header(damaged)
        assert header.crc == compute_crc(memoryview(damaged))
