from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.protocol.primitives import Buffer
from oncelog.protocol.records import scan, verdicts
from oncelog.protocol.records.batch import HEADER_SIZE, build_batch
from oncelog.protocol.records.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterable

    Scanner = type[scan.RecordScanner]
    Result = tuple[int, int, int, list[tuple[int, int]]]

T0 = 1_700_000_000_000
GOOD = "0c 00 00 00 01 01 00"
SECOND = "0c 00 00 02 01 01 00"


def result_of(scanner: Scanner, windows: Iterable[Buffer], *arguments: int) -> Result:
    record_count, base_timestamp, compacted, timestamp_min, timestamp_max = arguments
    scanning = scanner(record_count, base_timestamp, bool(compacted), timestamp_min, timestamp_max)
    for window in windows:
        scanning.feed(window)
    return scanning.finish()


def judge(scanner: Scanner, body: Buffer, record_count: int, **rules: int) -> Result:
    return result_of(
        scanner,
        [body],
        record_count,
        rules.get("base_timestamp", T0),
        rules.get("compacted", 0),
        rules.get("timestamp_min", verdicts.INT64_MIN),
        rules.get("timestamp_max", verdicts.INT64_MAX),
    )


def cut(body: Buffer, places: Iterable[int]) -> list[Buffer]:
    """The windows that result when the body is cut at these places."""
    windows: list[Buffer] = []
    start = 0
    for place in sorted(places):
        windows.append(body[start:place])
        start = place
    return [*windows, body[start:]]


VERDICTS = [
    pytest.param(GOOD, 1, verdicts.OK, 0, id="null key and value"),
    pytest.param(GOOD + SECOND, 2, verdicts.OK, 1, id="two records"),
    pytest.param("0c ff 00 00 01 01 00", 1, verdicts.OK, 0, id="attributes without meaning"),
    pytest.param("10 00 00 00 02 6b 02 76 00", 1, verdicts.OK, 0, id="key and value"),
    pytest.param("10 00 00 00 01 01 02 00 01", 1, verdicts.OK, 0, id="empty header key, null value"),
    pytest.param("8c80808000 00 00 00 01 01 00", 1, verdicts.OK, 0, id="length with needless bytes"),
    pytest.param("0e 00 00 8000 01 01 00", 1, verdicts.OK, 0, id="offset delta with needless byte"),
    pytest.param("0e 00 00 00 8100 01 00", 1, verdicts.OK, 0, id="key length with needless byte"),
    pytest.param("0e 00 00 00 01 01 8000", 1, verdicts.OK, 0, id="header count with needless byte"),
    pytest.param("", 1, verdicts.TRUNCATED, 0, id="nothing there"),
    pytest.param(GOOD, 2, verdicts.TRUNCATED, 1, id="fewer than counted"),
    pytest.param("02 00", 1, verdicts.TRUNCATED, 0, id="ends after the attributes"),
    pytest.param("00", 1, verdicts.TRUNCATED, 0, id="length 0 at the end"),
    pytest.param("80", 1, verdicts.TRUNCATED, 0, id="ends inside the length"),
    pytest.param("0c 00 00 00 08 01 00", 1, verdicts.TRUNCATED, 0, id="key past the end"),
    pytest.param("0c 00 00 00 feffffff0f 01", 1, verdicts.TRUNCATED, 0, id="key of 2 GB"),
    pytest.param("0c 00 00 00 01 01 fe", 1, verdicts.TRUNCATED, 0, id="ends inside the header count"),
    pytest.param("ffffffffff 00", 1, verdicts.BAD_VARINT, 0, id="length of six bytes"),
    pytest.param("ffffffff1f 00", 1, verdicts.BAD_VARINT, 0, id="length beyond 32 bits"),
    pytest.param("1c 00 ffffffffffffffffff02 00 01 01 00", 1, verdicts.BAD_VARINT, 0, id="timestamp, 65 bits"),
    pytest.param("0e 00 00 00 01 01 00", 1, verdicts.BAD_RECORD_LENGTH, 0, id="length past the end"),
    pytest.param("01 00 00 00 01 01 00", 1, verdicts.BAD_RECORD_LENGTH, 0, id="negative length"),
    pytest.param("feffffff0f 00", 1, verdicts.BAD_RECORD_LENGTH, 0, id="length of 2 GB"),
    pytest.param("0c 00 00 00 03 01 00", 1, verdicts.BAD_FIELD_LENGTH, 0, id="key length -2"),
    pytest.param("0c 00 00 00 01 05 00", 1, verdicts.BAD_FIELD_LENGTH, 0, id="value length -3"),
    pytest.param("10 00 00 00 01 01 02 03 01", 1, verdicts.BAD_FIELD_LENGTH, 0, id="header key length -2"),
    pytest.param("10 00 00 00 01 01 02 00 03", 1, verdicts.BAD_FIELD_LENGTH, 0, id="header value length -2"),
    pytest.param("0c 00 00 00 01 01 01", 1, verdicts.BAD_HEADER_COUNT, 0, id="header count -1"),
    pytest.param("0c 00 00 00 01 01 02", 1, verdicts.BAD_HEADER_COUNT, 0, id="header count past the end"),
    pytest.param("10 00 00 00 01 01 02 01 01", 1, verdicts.NULL_HEADER_KEY, 0, id="null header key"),
    pytest.param(SECOND, 1, verdicts.BAD_OFFSET_DELTA, 0, id="starts at 1"),
    pytest.param(GOOD + GOOD, 2, verdicts.BAD_OFFSET_DELTA, 1, id="same offset twice"),
    pytest.param("0c 00 00 01 01 01 00", 1, verdicts.BAD_OFFSET_DELTA, 0, id="negative offset delta"),
    pytest.param("0a 00 00 00 01 01 00", 1, verdicts.LENGTH_MISMATCH, 0, id="length too short"),
    pytest.param("0e 00 00 00 01 01 00 00", 1, verdicts.LENGTH_MISMATCH, 0, id="length too long"),
    pytest.param("10 00 00 00 01 01 02 00 7e", 1, verdicts.LENGTH_MISMATCH, 0, id="header value past the end"),
    pytest.param(GOOD + SECOND, 1, verdicts.BYTES_LEFT_OVER, 0, id="more than counted"),
    pytest.param(GOOD, 0, verdicts.BYTES_LEFT_OVER, 0, id="none counted"),
]


@pytest.mark.parametrize(("body", "record_count", "verdict", "index"), VERDICTS)
def test_verdicts(scanner: Scanner, body: str, record_count: int, verdict: int, index: int) -> None:
    assert judge(scanner, bytes.fromhex(body), record_count)[:2] == (verdict, index)


def test_null_key_matters_on_compacted_topics_only(scanner: Scanner) -> None:
    body = bytes.fromhex("0e 00 00 00 02 6b 01 00" + SECOND)
    assert judge(scanner, body, 2)[0] == verdicts.OK
    assert judge(scanner, body, 2, compacted=1) == (verdicts.OK, 1, T0, [(1, verdicts.NULL_KEY)])


def test_newest_timestamp(scanner: Scanner) -> None:
    records = [Record(i, T0 + delta, None, b"v") for i, delta in enumerate([5, 70_000, -3, 9])]
    body = memoryview(build_batch(records))[HEADER_SIZE:]
    assert judge(scanner, body, 4, base_timestamp=T0 + 5) == (verdicts.OK, 3, T0 + 70_000, [])


def test_newest_timestamp_is_at_least_minus_one(scanner: Scanner) -> None:
    assert judge(scanner, bytes.fromhex(GOOD), 1, base_timestamp=-50)[2] == -1


@pytest.mark.parametrize(("bound", "index"), [({"timestamp_min": T0}, 1), ({"timestamp_max": T0}, 2)])
def test_timestamps_out_of_range(scanner: Scanner, bound: dict[str, int], index: int) -> None:
    body = bytes.fromhex(GOOD + "0c 00 01 02 01 01 00" + "0c 00 02 04 01 01 00")
    assert judge(scanner, body, 3) == (verdicts.OK, 2, T0 + 1, [])
    assert judge(scanner, body, 3, **bound)[3] == [(index, verdicts.TIMESTAMP_OUT_OF_RANGE)]


def test_record_without_timestamp_is_in_any_range(scanner: Scanner) -> None:
    body = bytes.fromhex(GOOD)
    assert judge(scanner, body, 1, base_timestamp=-1, timestamp_min=T0)[3] == []
    assert judge(scanner, body, 1, base_timestamp=-2, timestamp_min=T0)[3] == [(0, verdicts.TIMESTAMP_OUT_OF_RANGE)]


@pytest.mark.parametrize(
    ("delta", "base_timestamp", "verdict"),
    [
        ("02", verdicts.INT64_MAX - 1, verdicts.OK),
        ("02", verdicts.INT64_MAX, verdicts.TIMESTAMP_OVERFLOW),
        ("01", verdicts.INT64_MIN + 1, verdicts.OK),
        ("01", verdicts.INT64_MIN, verdicts.TIMESTAMP_OVERFLOW),
        ("00", verdicts.INT64_MIN, verdicts.OK),
    ],
)
def test_timestamp_overflow(scanner: Scanner, delta: str, base_timestamp: int, verdict: int) -> None:
    body = bytes.fromhex(f"0c 00 {delta} 00 01 01 00")
    assert judge(scanner, body, 1, base_timestamp=base_timestamp)[0] == verdict


def test_extreme_deltas(scanner: Scanner) -> None:
    lowest = bytes.fromhex("1e 00 ffffffffffffffffff01 00 01 01 00")
    assert judge(scanner, lowest, 1, base_timestamp=0)[0] == verdicts.OK
    assert judge(scanner, lowest, 1, base_timestamp=-1)[0] == verdicts.TIMESTAMP_OVERFLOW
    highest = bytes.fromhex("1e 00 feffffffffffffffff01 00 01 01 00")
    assert judge(scanner, highest, 1, base_timestamp=0)[2] == verdicts.INT64_MAX


def test_takes_every_kind_of_buffer(scanner: Scanner) -> None:
    body = bytes.fromhex(GOOD)
    for kind in (bytes, bytearray, memoryview, lambda data: memoryview(b"x" + data)[1:]):
        assert judge(scanner, kind(body), 1) == (verdicts.OK, 0, T0, [])


def test_large_batch_with_wide_offset_deltas(scanner: Scanner) -> None:
    records = [Record(i, T0 + i * 3, b"k", b"v" * (i % 9000 == 0) * 9000) for i in range(20_000)]
    body = memoryview(build_batch(records))[HEADER_SIZE:]
    assert judge(scanner, body, 20_000) == (verdicts.OK, 19_999, T0 + 19_999 * 3, [])


@given(
    body=st.binary(max_size=60),
    record_count=st.integers(-2, 4),
    base_timestamp=st.integers(verdicts.INT64_MIN, verdicts.INT64_MAX),
    compacted=st.booleans(),
    places=st.lists(st.integers(0, 60), max_size=4),
)
def test_both_implementations_agree_on_any_bytes(
    scanner: Scanner, body: bytes, record_count: int, base_timestamp: int, compacted: bool, places: list[int]
) -> None:
    arguments = (record_count, base_timestamp, compacted, verdicts.INT64_MIN, verdicts.INT64_MAX)
    whole = result_of(scan.RecordScanner, [body], *arguments)
    assert result_of(scanner, [body], *arguments) == whole
    assert result_of(scanner, cut(body, places), *arguments) == whole


def damaged_batch(source: random.Random) -> tuple[bytearray, tuple[int, ...]]:
    """The records of a batch, most of them with a fault, and the other arguments of a scan."""
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
    return body, (
        len(records) + source.choice([0, 0, 0, 0, 1, -1]),
        T0,
        source.random() < 0.1,
        source.choice([verdicts.INT64_MIN, T0]),
        source.choice([verdicts.INT64_MAX, T0 + 10_000]),
    )


def test_both_implementations_agree_on_damaged_batches(scanner: Scanner) -> None:
    source = random.Random(11)
    seen = set()
    for _ in range(6000):
        body, arguments = damaged_batch(source)
        result = result_of(scanner, [body], *arguments)
        assert result == result_of(scan.RecordScanner, [body], *arguments)
        seen |= {result[0], *(verdict for _, verdict in result[3])}
    everything = set(range(verdicts.OK, verdicts.TIMESTAMP_OUT_OF_RANGE + 1))
    assert seen >= everything - {verdicts.BAD_VARINT, verdicts.TIMESTAMP_OVERFLOW}, "the damage is too tame"


def test_windows_may_cut_a_record_anywhere(scanner: Scanner) -> None:
    source = random.Random(12)
    for _ in range(1500):
        body, arguments = damaged_batch(source)
        whole = result_of(scanner, [body], *arguments)
        for places in (range(len(body)), [source.randrange(len(body) + 1)], source.sample(range(len(body)), 3)):
            assert result_of(scanner, cut(body, places), *arguments) == whole


@pytest.mark.parametrize(
    "body",
    [pytest.param(case.values[0], id=str(case.id)) for case in VERDICTS],
)
def test_every_verdict_is_the_same_at_every_cut(scanner: Scanner, body: str) -> None:
    data = bytes.fromhex(body)
    for record_count in (1, 2):
        whole = judge(scanner, data, record_count)
        for first in range(len(data) + 1):
            for second in range(first, len(data) + 1):
                arguments = (record_count, T0, 0, verdicts.INT64_MIN, verdicts.INT64_MAX)
                assert result_of(scanner, cut(data, [first, second]), *arguments) == whole


def test_a_record_larger_than_any_window(scanner: Scanner) -> None:
    """Also one that claims far more than comes, and one with many headers, which are never there at once."""
    headers = [("name", b"value")] * 30_000
    records = [Record(0, T0, b"k", bytes(1_000_000)), Record(1, T0 + 1, bytes(70_000), None, headers)]
    body = memoryview(build_batch(records))[HEADER_SIZE:]
    arguments = (2, T0, 0, verdicts.INT64_MIN, verdicts.INT64_MAX)
    windows = cut(body, range(0, len(body), 65_536))
    assert result_of(scanner, windows, *arguments) == (verdicts.OK, 1, T0 + 1, [])
    assert result_of(scanner, windows[:-1], *arguments)[:2] == (verdicts.BAD_RECORD_LENGTH, 1)


def test_the_first_thousand_violations_are_kept(scanner: Scanner) -> None:
    body = memoryview(build_batch([Record(index, T0, None, None) for index in range(1200)]))[HEADER_SIZE:]
    violations = judge(scanner, body, 1200, compacted=1)[3]
    assert violations == [(index, verdicts.NULL_KEY) for index in range(scan.VIOLATIONS_MAX)]
