from __future__ import annotations

import random

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch

from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.records.batch import HEADER, HEADER_SIZE, build_batch, read_header
from oncelog.protocol.records.compression import Compression
from oncelog.protocol.records.record import Record, iter_records

T0 = 1_700_000_000_000

HEADERS = st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=80)), max_size=4)
RECORD = st.builds(
    Record,
    offset=st.just(0),
    timestamp=st.integers(-1, 2**45),
    key=st.none() | st.binary(max_size=70),
    value=st.none() | st.binary(max_size=300),
    headers=HEADERS,
    attributes=st.integers(0, 255),
)
# aiokafka takes a first timestamp of -1 for "not set yet", and kafka-python reads attributes as a varint, so
# what goes through them has real timestamps and no attributes.
STAMPED = RECORD.map(lambda record: record._replace(timestamp=abs(record.timestamp), attributes=0))


def numbered(record: st.SearchStrategy[Record]) -> st.SearchStrategy[list[Record]]:
    return st.lists(record, min_size=1, max_size=12).map(
        lambda records: [record._replace(offset=index) for index, record in enumerate(records)]
    )


def with_body(body: bytes, record_count: int) -> bytes:
    """A batch with the given records, however malformed, behind a sound header."""
    header = read_header(build_batch([Record(0, T0, None, None)]))
    return HEADER.pack(*header._replace(batch_length=49 + len(body), record_count=record_count)) + body


@pytest.mark.parametrize("name", ["plain", "transactional", "gzip", "snappy", "lz4", "zstd"])
def test_reads_the_records_that_java_writes(
    name: str, java_batches: dict[str, bytes], java_records: list[Record]
) -> None:
    base_offset = read_header(java_batches[name]).base_offset
    expected = [record._replace(offset=base_offset + record.offset) for record in java_records]
    assert list(iter_records(java_batches[name])) == expected


@pytest.mark.parametrize("codec", Compression)
@given(records=numbered(RECORD))
def test_round_trip(codec: Compression, records: list[Record]) -> None:
    assert list(iter_records(memoryview(build_batch(records, compression=codec)))) == records


@given(records=numbered(STAMPED))
def test_kafka_python_reads_the_same(records: list[Record]) -> None:
    theirs = KafkaPythonBatch(bytes(build_batch(records)))
    assert [Record(r.offset, r.timestamp, r.key, r.value, r.headers) for r in theirs] == records


@pytest.mark.parametrize("codec", Compression)
@given(records=numbered(STAMPED))
def test_reads_what_aiokafka_writes(codec: Compression, records: list[Record]) -> None:
    builder = AiokafkaBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1_000_000,
    )
    for record in records:
        builder.append(record.offset, record.timestamp, record.key, record.value, headers=list(record.headers))
    assert list(iter_records(builder.build())) == records


def test_header_keys_that_are_not_utf8_survive() -> None:
    batch = with_body(bytes.fromhex("14 00 00 00 01 01 02 04 ff41 00"), 1)
    (record,) = iter_records(batch)
    ((key, value),) = record.headers
    assert key.encode("utf-8", "surrogateescape") == b"\xffA"
    assert value == b""
    assert list(iter_records(build_batch([record]))) == [record]


def test_bytes_after_the_batch_are_not_looked_at() -> None:
    batch = build_batch([Record(0, T0, None, b"v")])
    assert list(iter_records(batch + b"next batch")) == list(iter_records(batch))


@pytest.mark.parametrize(
    ("body", "record_count"),
    [
        pytest.param("", 1, id="nothing there"),
        pytest.param("0c 00 00 00 01 01 00", 0, id="bytes without a record"),
        pytest.param("0c 00 00 00 01 01 00 0c 00 00 02 01 01 00", 1, id="more than counted"),
        pytest.param("0c 00 00 00 01 01 00", 2, id="fewer than counted"),
        pytest.param("0e 00 00 00 01 01 00", 1, id="length past the end"),
        pytest.param("01 00 00 00 01 01 00", 1, id="negative length"),
        pytest.param("0a 00 00 00 01 01 00", 1, id="length too short"),
        pytest.param("0e 00 00 00 01 01 00 00", 1, id="length too long"),
        pytest.param("0c 00 00 00 03 01 00", 1, id="key length -2"),
        pytest.param("0c 00 00 00 08 01 00", 1, id="key past the record"),
        pytest.param("0c 00 00 00 01 09 00", 1, id="value length -5"),
        pytest.param("0c 00 00 00 01 01 01", 1, id="header count -1"),
        pytest.param("0c 00 00 00 01 01 7e", 1, id="header count past the record"),
        pytest.param("0c 00 00 00 01 01 fe", 1, id="cut off varint"),
        pytest.param("10 00 00 00 01 01 02 01 01", 1, id="null header key"),
        pytest.param("22 00 ff ff ff ff ff ff ff ff ff 02 00 01 01 00 00 00", 1, id="varlong beyond 64 bits"),
    ],
)
def test_malformed_records(body: str, record_count: int) -> None:
    with pytest.raises(ProtocolError):
        list(iter_records(with_body(bytes.fromhex(body), record_count)))


def test_batch_that_is_cut_off() -> None:
    batch = build_batch([Record(0, T0, None, b"v" * 50)])
    for end in range(len(batch)):
        with pytest.raises(ProtocolError):
            list(iter_records(batch[:end]))


def test_unknown_compression() -> None:
    batch = build_batch([Record(0, T0, None, b"v")])
    batch[22] = 6
    with pytest.raises(ProtocolError):
        list(iter_records(batch))


@given(st.binary(max_size=120), st.integers(-3, 5), st.integers(0, 7))
def test_any_body_gives_records_or_a_protocol_error(body: bytes, record_count: int, codec_id: int) -> None:
    batch = bytearray(with_body(body, record_count))
    batch[22] = codec_id
    try:
        list(iter_records(batch))
    except ProtocolError:
        return


def test_damaged_batches_give_records_or_a_protocol_error() -> None:
    source = random.Random(7)
    for codec in Compression:
        records = [Record(i, T0 + i, b"key", b"value" * i, [("h", b"x")]) for i in range(12)]
        batch = build_batch(records, compression=codec)
        for _ in range(400):
            damaged = bytearray(batch)
            for _ in range(source.randrange(1, 4)):
                damaged[source.randrange(HEADER_SIZE - 4, len(batch))] = source.randrange(256)
            try:
                list(iter_records(damaged))
            except ProtocolError:
                continue
