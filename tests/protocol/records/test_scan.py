from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.protocol.records import scan
from oncelog.protocol.records.batch import HEADER_SIZE, build_batch
from oncelog.protocol.records.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    Scan = Callable[..., tuple[int, int, int]]

T0 = 1_700_000_000_000
GOOD = "0c 00 00 00 01 01 00"
SECOND = "0c 00 00 02 01 01 00"


def judge(scan_records: Scan, body: bytes, record_count: int, **rules: int) -> tuple[int, int, int]:
    return scan_records(
        body,
        record_count,
        rules.get("base_timestamp", T0),
        bool(rules.get("compacted", False)),
        rules.get("timestamp_min", scan.INT64_MIN),
        rules.get("timestamp_max", scan.INT64_MAX),
    )


@pytest.mark.parametrize(
    ("body", "record_count", "verdict", "index"),
    [
        pytest.param(GOOD, 1, scan.OK, 0, id="null key and value"),
        pytest.param(GOOD + SECOND, 2, scan.OK, 1, id="two records"),
        pytest.param("0c ff 00 00 01 01 00", 1, scan.OK, 0, id="attributes without meaning"),
        pytest.param("10 00 00 00 02 6b 02 76 00", 1, scan.OK, 0, id="key and value"),
        pytest.param("10 00 00 00 01 01 02 00 01", 1, scan.OK, 0, id="empty header key, null value"),
        pytest.param("8c80808000 00 00 00 01 01 00", 1, scan.OK, 0, id="length with needless bytes"),
        pytest.param("0e 00 00 8000 01 01 00", 1, scan.OK, 0, id="offset delta with needless byte"),
        pytest.param("0e 00 00 00 8100 01 00", 1, scan.OK, 0, id="key length with needless byte"),
        pytest.param("0e 00 00 00 01 01 8000", 1, scan.OK, 0, id="header count with needless byte"),
        pytest.param("", 1, scan.TRUNCATED, 0, id="nothing there"),
        pytest.param(GOOD, 2, scan.TRUNCATED, 1, id="fewer than counted"),
        pytest.param("02 00", 1, scan.TRUNCATED, 0, id="ends after the attributes"),
        pytest.param("00", 1, scan.TRUNCATED, 0, id="length 0 at the end"),
        pytest.param("80", 1, scan.TRUNCATED, 0, id="ends inside the length"),
        pytest.param("0c 00 00 00 08 01 00", 1, scan.TRUNCATED, 0, id="key past the end"),
        pytest.param("0c 00 00 00 feffffff0f 01", 1, scan.TRUNCATED, 0, id="key of 2 GB"),
        pytest.param("0c 00 00 00 01 01 fe", 1, scan.TRUNCATED, 0, id="ends inside the header count"),
        pytest.param("ffffffffff 00", 1, scan.BAD_VARINT, 0, id="length of six bytes"),
        pytest.param("ffffffff1f 00", 1, scan.BAD_VARINT, 0, id="length beyond 32 bits"),
        pytest.param("1c 00 ffffffffffffffffff02 00 01 01 00", 1, scan.BAD_VARINT, 0, id="timestamp, 65 bits"),
        pytest.param("0e 00 00 00 01 01 00", 1, scan.BAD_RECORD_LENGTH, 0, id="length past the end"),
        pytest.param("01 00 00 00 01 01 00", 1, scan.BAD_RECORD_LENGTH, 0, id="negative length"),
        pytest.param("feffffff0f 00", 1, scan.BAD_RECORD_LENGTH, 0, id="length of 2 GB"),
        pytest.param("0c 00 00 00 03 01 00", 1, scan.BAD_FIELD_LENGTH, 0, id="key length -2"),
        pytest.param("0c 00 00 00 01 05 00", 1, scan.BAD_FIELD_LENGTH, 0, id="value length -3"),
        pytest.param("10 00 00 00 01 01 02 03 01", 1, scan.BAD_FIELD_LENGTH, 0, id="header key length -2"),
        pytest.param("10 00 00 00 01 01 02 00 03", 1, scan.BAD_FIELD_LENGTH, 0, id="header value length -2"),
        pytest.param("0c 00 00 00 01 01 01", 1, scan.BAD_HEADER_COUNT, 0, id="header count -1"),
        pytest.param("0c 00 00 00 01 01 02", 1, scan.BAD_HEADER_COUNT, 0, id="header count past the end"),
        pytest.param("10 00 00 00 01 01 02 01 01", 1, scan.NULL_HEADER_KEY, 0, id="null header key"),
        pytest.param(SECOND, 1, scan.BAD_OFFSET_DELTA, 0, id="starts at 1"),
        pytest.param(GOOD + GOOD, 2, scan.BAD_OFFSET_DELTA, 1, id="same offset twice"),
        pytest.param("0c 00 00 01 01 01 00", 1, scan.BAD_OFFSET_DELTA, 0, id="negative offset delta"),
        pytest.param("0a 00 00 00 01 01 00", 1, scan.LENGTH_MISMATCH, 0, id="length too short"),
        pytest.param("0e 00 00 00 01 01 00 00", 1, scan.LENGTH_MISMATCH, 0, id="length too long"),
        pytest.param("10 00 00 00 01 01 02 00 7e", 1, scan.LENGTH_MISMATCH, 0, id="header value past the end"),
        pytest.param(GOOD + SECOND, 1, scan.BYTES_LEFT_OVER, 0, id="more than counted"),
        pytest.param(GOOD, 0, scan.BYTES_LEFT_OVER, 0, id="none counted"),
    ],
)
def test_verdicts(scan_records: Scan, body: str, record_count: int, verdict: int, index: int) -> None:
    assert judge(scan_records, bytes.fromhex(body), record_count)[:2] == (verdict, index)


def test_null_key_matters_on_compacted_topics_only(scan_records: Scan) -> None:
    body = bytes.fromhex("0e 00 00 00 02 6b 01 00" + SECOND)
    assert judge(scan_records, body, 2)[0] == scan.OK
    assert judge(scan_records, body, 2, compacted=1)[:2] == (scan.NULL_KEY, 1)


def test_newest_timestamp(scan_records: Scan) -> None:
    records = [Record(i, T0 + delta, None, b"v") for i, delta in enumerate([5, 70_000, -3, 9])]
    body = memoryview(build_batch(records))[HEADER_SIZE:]
    assert judge(scan_records, body, 4, base_timestamp=T0 + 5) == (scan.OK, 3, T0 + 70_000)


def test_newest_timestamp_is_at_least_minus_one(scan_records: Scan) -> None:
    assert judge(scan_records, bytes.fromhex(GOOD), 1, base_timestamp=-50)[2] == -1


@pytest.mark.parametrize(("bound", "index"), [({"timestamp_min": T0}, 1), ({"timestamp_max": T0}, 2)])
def test_timestamps_out_of_range(scan_records: Scan, bound: dict[str, int], index: int) -> None:
    body = bytes.fromhex(GOOD + "0c 00 01 02 01 01 00" + "0c 00 02 04 01 01 00")
    assert judge(scan_records, body, 3)[0] == scan.OK
    assert judge(scan_records, body, 3, **bound)[:2] == (scan.TIMESTAMP_OUT_OF_RANGE, index)


def test_record_without_timestamp_is_in_any_range(scan_records: Scan) -> None:
    body = bytes.fromhex(GOOD)
    assert judge(scan_records, body, 1, base_timestamp=-1, timestamp_min=T0)[0] == scan.OK
    assert judge(scan_records, body, 1, base_timestamp=-2, timestamp_min=T0)[0] == scan.TIMESTAMP_OUT_OF_RANGE


@pytest.mark.parametrize(
    ("delta", "base_timestamp", "verdict"),
    [
        ("02", scan.INT64_MAX - 1, scan.OK),
        ("02", scan.INT64_MAX, scan.TIMESTAMP_OVERFLOW),
        ("01", scan.INT64_MIN + 1, scan.OK),
        ("01", scan.INT64_MIN, scan.TIMESTAMP_OVERFLOW),
        ("00", scan.INT64_MIN, scan.OK),
    ],
)
def test_timestamp_overflow(scan_records: Scan, delta: str, base_timestamp: int, verdict: int) -> None:
    body = bytes.fromhex(f"0c 00 {delta} 00 01 01 00")
    assert judge(scan_records, body, 1, base_timestamp=base_timestamp)[0] == verdict


def test_extreme_deltas(scan_records: Scan) -> None:
    lowest = bytes.fromhex("1e 00 ffffffffffffffffff01 00 01 01 00")
    assert judge(scan_records, lowest, 1, base_timestamp=0)[0] == scan.OK
    assert judge(scan_records, lowest, 1, base_timestamp=-1)[0] == scan.TIMESTAMP_OVERFLOW
    highest = bytes.fromhex("1e 00 feffffffffffffffff01 00 01 01 00")
    assert judge(scan_records, highest, 1, base_timestamp=0)[2] == scan.INT64_MAX


def test_takes_every_kind_of_buffer(scan_records: Scan) -> None:
    body = bytes.fromhex(GOOD)
    for kind in (bytes, bytearray, memoryview, lambda data: memoryview(b"x" + data)[1:]):
        assert judge(scan_records, kind(body), 1) == (scan.OK, 0, T0)


def test_large_batch_with_wide_offset_deltas(scan_records: Scan) -> None:
    records = [Record(i, T0 + i * 3, b"k", b"v" * (i % 9000 == 0) * 9000) for i in range(20_000)]
    body = memoryview(build_batch(records))[HEADER_SIZE:]
    assert judge(scan_records, body, 20_000) == (scan.OK, 19_999, T0 + 19_999 * 3)


@given(
    body=st.binary(max_size=60),
    record_count=st.integers(-2, 4),
    base_timestamp=st.integers(scan.INT64_MIN, scan.INT64_MAX),
    compacted=st.booleans(),
)
def test_both_implementations_agree_on_any_bytes(
    scan_records: Scan, body: bytes, record_count: int, base_timestamp: int, compacted: bool
) -> None:
    arguments = (body, record_count, base_timestamp, compacted, scan.INT64_MIN, scan.INT64_MAX)
    assert scan_records(*arguments) == scan.scan_records(*arguments)


def test_both_implementations_agree_on_damaged_batches(scan_records: Scan) -> None:
    source = random.Random(11)
    verdicts = set()
    for _ in range(6000):
        records = [
            Record(
                index,
                T0 + source.randrange(-200, 20_000),
                source.choice([None, b"key" * source.randrange(60)]),
                source.choice([None, b"value" * source.randrange(60)]),
                [("h" * source.randrange(3), source.choice([None, b"x"]))] * source.randrange(3),
            )
            for index in range(source.randrange(1, 5))
        ]
        body = build_batch(records)[HEADER_SIZE:]
        for _ in range(source.randrange(3)):
            body[source.randrange(len(body))] = source.choice([0, 1, 2, 3, 127, 128, 255, source.randrange(256)])
        del body[len(body) - source.choice([0, 0, 0, 1, 2]) :]
        arguments = (
            body,
            len(records) + source.choice([0, 0, 0, 0, 1, -1]),
            T0,
            source.random() < 0.1,
            source.choice([scan.INT64_MIN, T0]),
            source.choice([scan.INT64_MAX, T0 + 10_000]),
        )
        result = scan_records(*arguments)
        assert result == scan.scan_records(*arguments)
        verdicts.add(result[0])
    everything = set(range(scan.OK, scan.TIMESTAMP_OUT_OF_RANGE + 1))
    assert verdicts >= everything - {scan.BAD_VARINT, scan.TIMESTAMP_OVERFLOW}, "the damage is too tame"
