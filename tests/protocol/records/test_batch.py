from __future__ import annotations

import struct

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from oncelog.protocol.errors import ErrorCode, KafkaError, ProtocolError
from oncelog.protocol.records import batch as batch_module
from oncelog.protocol.records.batch import (
    HEADER,
    HEADER_SIZE,
    BatchHeader,
    TimestampType,
    build_batch,
    compute_crc,
    iter_headers,
    patch_max_timestamp,
    patch_max_timestamp_log_append,
    patch_offset_and_epoch,
    read_header,
    rebuild_batch,
    recompress_batch,
)
from oncelog.protocol.records.compression import Compression
from oncelog.protocol.records.record import Record, iter_records

T0 = 1_700_000_000_000
RECORDS = [Record(i, T0 + i % 3, b"k%d" % i, b"value" * i) for i in range(10)]


def crc_is_good(batch: bytearray | bytes) -> bool:
    return read_header(batch).crc == compute_crc(memoryview(batch))


def test_header_struct_matches_the_layout() -> None:
    assert HEADER.size == HEADER_SIZE == 61
    assert len(BatchHeader._fields) == 13


def test_builds_the_bytes_that_java_builds(java_records: list[Record], java_batches: dict[str, bytes]) -> None:
    producer = {"producer_id": 1234, "producer_epoch": 5, "base_sequence": 42}
    assert build_batch(java_records, base_offset=7, leader_epoch=9, **producer) == java_batches["plain"]
    assert build_batch(java_records, transactional=True, **producer) == java_batches["transactional"]


def test_reads_the_header_that_java_writes(java_batches: dict[str, bytes]) -> None:
    header = read_header(b"xx" + java_batches["plain"], 2)
    assert header == BatchHeader(7, 90, 9, 2, 0xCC74876B, 0, 2, T0, T0 + 5, 1234, 5, 42, 3)
    assert header.size_bytes == len(java_batches["plain"])
    assert header.last_offset == 9
    assert header.last_sequence == 44
    assert header.compression is Compression.NONE
    assert not header.is_transactional
    assert read_header(java_batches["transactional"]).is_transactional
    for name in ("gzip", "snappy", "lz4", "zstd"):
        assert read_header(java_batches[name]).compression.name == name.upper()
    for batch in java_batches.values():
        assert crc_is_good(batch)


@pytest.mark.parametrize("codec", Compression)
def test_aiokafka_reads_our_batches(codec: Compression) -> None:
    theirs = AiokafkaBatch(bytes(build_batch(RECORDS, base_offset=50, compression=codec)))
    assert theirs.validate_crc()
    assert [(r.offset, r.timestamp, r.key, r.value) for r in theirs] == [
        (50 + r.offset, r.timestamp, r.key, r.value) for r in RECORDS
    ]


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
def test_kafka_python_reads_our_batches(codec: Compression) -> None:
    theirs = KafkaPythonBatch(bytes(build_batch(RECORDS, base_offset=50, compression=codec)))
    assert theirs.validate_crc()
    assert [(r.offset, r.timestamp, r.key, r.value) for r in theirs] == [
        (50 + r.offset, r.timestamp, r.key, r.value) for r in RECORDS
    ]


@pytest.mark.parametrize("builder_class", [AiokafkaBuilder, KafkaPythonBuilder])
def test_plain_batches_equal_those_of_other_clients(builder_class: type) -> None:
    builder = builder_class(
        magic=2,
        compression_type=0,
        is_transactional=1,
        producer_id=99,
        producer_epoch=3,
        base_sequence=17,
        batch_size=100_000,
    )
    records = [Record(i, T0 - i, None if i % 2 else b"k", b"v" * i * 9, [("h", b"x")] * i) for i in range(20)]
    for record in records:
        builder.append(record.offset, record.timestamp, record.key, record.value, headers=list(record.headers))
    ours = build_batch(records, producer_id=99, producer_epoch=3, base_sequence=17, transactional=True)
    theirs = bytearray(builder.build())
    # Producers differ in the leader epoch, which the broker overwrites and the CRC leaves out.
    patch_offset_and_epoch(theirs, 0, 0, -1)
    assert ours == theirs


def test_build_numbers_records_from_the_base_offset() -> None:
    batch = build_batch([Record(77, T0, None, b"a"), Record(5, T0, None, b"b")], base_offset=1000)
    assert [record.offset for record in iter_records(batch)] == [1000, 1001]


def test_build_with_all_options() -> None:
    batch = build_batch(
        RECORDS,
        transactional=True,
        control=True,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        base_timestamp=T0 - 500,
        compression=Compression.ZSTD,
    )
    header = read_header(batch)
    assert header.attributes == 4 | 0x08 | 0x10 | 0x20
    assert header.is_control
    assert header.is_transactional
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert header.base_timestamp == T0 - 500
    assert {record.timestamp for record in iter_records(batch)} == {T0 + 2}


@pytest.mark.parametrize(
    ("base_sequence", "last_sequence"),
    [(-1, -1), (0, 9), (2**31 - 10, 2**31 - 1), (2**31 - 9, 0), (2**31 - 1, 8)],
)
def test_last_sequence_wraps(base_sequence: int, last_sequence: int) -> None:
    assert read_header(build_batch(RECORDS, base_sequence=base_sequence)).last_sequence == last_sequence


def test_unknown_compression_is_a_protocol_error() -> None:
    for codec_id in (5, 6, 7):
        header = read_header(build_batch(RECORDS))._replace(attributes=codec_id)
        with pytest.raises(ProtocolError):
            _ = header.compression


def test_patch_offset_and_epoch_leaves_the_crc_good() -> None:
    buf = bytearray(b"xyz") + build_batch(RECORDS)
    patch_offset_and_epoch(buf, 3, 2**40, 12)
    assert (read_header(buf, 3).base_offset, read_header(buf, 3).leader_epoch) == (2**40, 12)
    assert crc_is_good(buf[3:])


def test_patch_log_append_time() -> None:
    buf = bytearray(b"xyz") + build_batch(RECORDS, transactional=True) + b"more"
    crc = patch_max_timestamp_log_append(memoryview(buf), 3, T0 + 999)
    header = read_header(buf, 3)
    assert header.log_append_time
    assert header.is_transactional
    assert header.max_timestamp == T0 + 999
    assert header.crc == crc
    assert crc_is_good(buf[3:-4])
    assert {record.timestamp for record in iter_records(buf[3:])} == {T0 + 999}


def test_patch_max_timestamp() -> None:
    buf = build_batch(RECORDS)
    assert patch_max_timestamp(buf, 0, 5) == read_header(buf).crc
    assert read_header(buf).max_timestamp == 5
    assert crc_is_good(buf)


def test_iter_headers_stops_at_a_batch_that_is_cut_off() -> None:
    first, second = build_batch(RECORDS[:2]), build_batch(RECORDS, base_offset=2)
    buf = first + second
    whole = [(0, read_header(first)), (len(first), read_header(second))]
    assert list(iter_headers(buf)) == whole
    for end in range(len(first), len(buf)):
        assert list(iter_headers(memoryview(buf)[:end])) == whole[:1]
    assert list(iter_headers(b"")) == []


@pytest.mark.parametrize(
    "damage", [(16, b"\x01"), (16, b"\x03"), (8, struct.pack(">i", 48)), (8, struct.pack(">i", -1))]
)
def test_malformed_headers(damage: tuple[int, bytes]) -> None:
    position, data = damage
    batch = build_batch(RECORDS)
    batch[position : position + len(data)] = data
    with pytest.raises(ProtocolError):
        read_header(batch)
    with pytest.raises(ProtocolError):
        list(iter_headers(batch))


def test_short_header() -> None:
    with pytest.raises(ProtocolError):
        read_header(bytes(60))


@given(st.binary(max_size=300))
def test_any_bytes_give_headers_or_a_protocol_error(data: bytes) -> None:
    for function in (read_header, lambda buf: list(iter_headers(buf))):
        try:
            function(data)
        except ProtocolError:
            continue


@pytest.mark.parametrize("target", Compression)
@pytest.mark.parametrize("source", Compression)
def test_recompress_changes_the_codec_only(source: Compression, target: Compression) -> None:
    """Also of more records than a decoder gives at once."""
    records = [Record(i, T0 + i, b"k", b"value-%d" % i * 20) for i in range(10_000)]
    batch = memoryview(build_batch(records, compression=source, producer_id=9, producer_epoch=1, base_sequence=20))
    header = read_header(batch)
    rebuilt = recompress_batch(batch, header, target, size_bytes_max=10**7)
    assert crc_is_good(rebuilt)
    found = read_header(rebuilt)
    assert found.compression is target
    assert found._replace(attributes=0, crc=0, batch_length=0) == header._replace(attributes=0, crc=0, batch_length=0)
    assert list(iter_records(rebuilt)) == records
    assert recompress_batch(batch, header, target, size_bytes_max=len(rebuilt)) == rebuilt
    with pytest.raises(KafkaError, match=r"max\.message\.bytes") as raised:
        recompress_batch(batch, header, target, size_bytes_max=len(rebuilt) - 1)
    assert raised.value.code == ErrorCode.MESSAGE_TOO_LARGE


def test_recompress_ends_as_soon_as_the_batch_is_too_large() -> None:
    batch = memoryview(build_batch([Record(0, T0, b"k", bytes(30_000_000))], compression=Compression.ZSTD))
    sizes: list[int] = []
    with pytest.raises(KafkaError):
        recompress_batch(batch, read_header(batch), Compression.NONE, size_bytes_max=20_000, allow=sizes.append)
    assert sizes[-1] < 1_000_000


@pytest.mark.parametrize("codec", Compression)
def test_rebuild_keeps_what_compaction_must_keep(codec: Compression) -> None:
    original = build_batch(
        RECORDS,
        base_offset=100,
        leader_epoch=6,
        producer_id=9,
        producer_epoch=1,
        base_sequence=20,
        compression=codec,
        transactional=True,
    )
    header = read_header(original)
    kept = list(iter_records(original))[3:8:2]
    batch = rebuild_batch(header, kept, delete_horizon_ms=T0 + 10**6)
    rebuilt = read_header(batch)
    assert list(iter_records(batch)) == kept
    assert crc_is_good(batch)
    assert rebuilt.delete_horizon_ms == T0 + 10**6
    assert header.delete_horizon_ms is None
    assert (rebuilt.base_offset, rebuilt.last_offset, rebuilt.last_sequence) == (
        100,
        109,
        header.last_sequence,
    )
    assert (rebuilt.producer_id, rebuilt.leader_epoch, rebuilt.record_count) == (9, 6, 3)
    assert read_header(rebuild_batch(rebuilt, kept[:1])).delete_horizon_ms == T0 + 10**6


def test_rebuild_without_horizon_takes_the_first_timestamp() -> None:
    original = build_batch(RECORDS)
    kept = list(iter_records(original))[1:2]
    header = read_header(rebuild_batch(read_header(original), kept))
    assert (header.base_timestamp, header.max_timestamp) == (T0 + 1, T0 + 1)


def test_rebuild_of_nothing_leaves_an_empty_batch() -> None:
    original = build_batch(RECORDS, base_offset=100, producer_id=9, producer_epoch=1, base_sequence=20)
    batch = rebuild_batch(read_header(original), [])
    header = read_header(batch)
    assert len(batch) == HEADER_SIZE
    assert list(iter_records(batch)) == []
    assert crc_is_good(batch)
    assert (header.record_count, header.last_offset, header.base_timestamp) == (0, 109, -1)
    assert header.max_timestamp == T0 + 2


def test_empty_batch_cannot_be_built_by_a_producer() -> None:
    with pytest.raises(AssertionError):
        batch_module.build_batch([])
