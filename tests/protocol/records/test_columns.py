"""Encoding from columns: the same bytes as record by record, in both implementations, and no way outside a buffer."""

from __future__ import annotations

import importlib
import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.protocol.records import columns
from oncelog.protocol.records.batch import build_batch
from oncelog.protocol.records.columns import Column
from oncelog.protocol.records.record import Record

Encode = Callable[..., tuple[bytes, int, int]]
HEADER_SIZE = 61
ALL = 2**40


def native() -> object:
    try:
        module = importlib.import_module("oncelog.protocol.records._native")
    except ImportError:
        pytest.skip("the C extension is not built")
    return module


@pytest.fixture(scope="module", params=["native", "plain"])
def encode(request: pytest.FixtureRequest) -> Encode:
    function: Encode = columns.encode_records
    if request.param == "native":
        function = native().encode_records  # type: ignore[attr-defined]
    return function


def column(values: list[bytes | None], *, start: int = 0) -> Column:
    """The values as Arrow has them, behind `start` others."""
    rows = [b"before"] * start + values
    ends = [0]
    for row in rows:
        ends.append(ends[-1] + len(row or b""))
    bits = bytearray(len(rows) // 8 + 1)
    for index, row in enumerate(rows):
        bits[index // 8] |= (row is not None) << index % 8
    return Column(struct.pack(f"={len(ends)}i", *ends), b"".join(row or b"" for row in rows), bytes(bits), start)


def header_columns(rows: list[list[tuple[str, bytes | None]]]) -> tuple[Column, Column, Column]:
    ends = [0]
    for row in rows:
        ends.append(ends[-1] + len(row))
    flat = [header for row in rows for header in row]
    lists = Column(struct.pack(f"={len(ends)}i", *ends), None, None, 0)
    return lists, column([key.encode() for key, _ in flat]), column([value for _, value in flat])


def encode_all(encode: Encode, records: list[Record], start: int = 0) -> tuple[bytes, int, int]:
    rows = struct.pack(f"={len(records)}i", *range(len(records)))
    times = struct.pack(f"={len(records)}q", *(record.timestamp for record in records))
    keys = column([record.key for record in records], start=start)
    values = column([record.value for record in records], start=start)
    headers = header_columns([list(record.headers) for record in records])
    return encode(rows, 0, 0, records[0].timestamp, ALL, times, keys, values, *headers)


texts = st.none() | st.binary(max_size=200)
record_lists = st.lists(
    st.builds(
        Record,
        st.just(0),
        st.integers(0, 2**42),
        texts,
        texts,
        st.lists(st.tuples(st.text("aé", max_size=3), texts), max_size=3),
    ),
    min_size=1,
    max_size=20,
)


@given(records=record_lists, start=st.integers(0, 9))
def test_columns_give_the_bytes_that_records_give(encode: Encode, records: list[Record], start: int) -> None:
    body, after, newest = encode_all(encode, records, start)
    assert body == bytes(build_batch(records)[HEADER_SIZE:])
    assert after == len(records)
    assert newest == max(record.timestamp for record in records)


def test_rows_are_taken_in_the_order_given_and_deltas_go_on(encode: Encode) -> None:
    rows = struct.pack("=3i", 2, 0, 1)
    times = struct.pack("=3q", 100, 101, 102)
    values = column([b"a", b"b", b"c"])
    body, after, newest = encode(rows, 1, 5, 100, ALL, times, None, values, None, None, None)
    wanted = [Record(0, 100, None, b"x")] * 5 + [Record(0, 100, None, b"a"), Record(0, 101, None, b"b")]
    assert bytes(build_batch(wanted)[HEADER_SIZE:]).endswith(body)
    assert (after, newest) == (3, 101)


def test_a_full_batch_ends_before_the_row_that_does_not_fit(encode: Encode) -> None:
    rows = struct.pack("=4i", *range(4))
    times = struct.pack("=4q", *[7] * 4)
    values = column([b"x" * 50] * 4)
    one = len(encode(rows[:4], 0, 0, 7, ALL, times, None, values, None, None, None)[0])
    body, after, _ = encode(rows, 0, 0, 7, 2 * one, times, None, values, None, None, None)
    assert (len(body), after) == (2 * one, 2)
    # The first record of a batch is written however large it is, or it could never be written.
    body, after, newest = encode(rows, 2, 0, 7, 1, times, None, values, None, None, None)
    assert (len(body), after, newest) == (one, 3, 7)
    assert encode(rows, 2, 9, 7, 1, times, None, values, None, None, None) == (b"", 2, -1)


@pytest.mark.parametrize(
    "broken",
    [
        Column(struct.pack("=2i", 0, 9), b"12345678", None, 0),
        Column(struct.pack("=2i", -1, 1), b"12345678", None, 0),
        Column(struct.pack("=2i", 5, 4), b"12345678", None, 0),
        Column(struct.pack("=1i", 0), b"12345678", None, 0),
        Column(struct.pack("=2i", 0, 1), None, None, 0),
        Column(struct.pack("=2i", 0, 1), b"1", b"", 0),
        Column(struct.pack("=2i", 0, 1), b"1", None, 7),
    ],
)
def test_an_offset_that_leads_outside_is_refused(encode: Encode, broken: Column) -> None:
    times = struct.pack("=1q", 0)
    with pytest.raises(IndexError):
        encode(struct.pack("=1i", 0), 0, 0, 0, ALL, times, None, broken, None, None, None)
    with pytest.raises(IndexError):
        encode(struct.pack("=1i", 0), 0, 0, 0, ALL, times, None, None, broken, broken, None)
    if importlib.util.find_spec("oncelog.protocol.records._native"):
        with pytest.raises(IndexError):
            native().partition_keys(broken, 1, 4)  # type: ignore[attr-defined]


def test_a_row_that_is_not_there_and_a_header_without_a_key_are_refused(encode: Encode) -> None:
    times = struct.pack("=1q", 0)
    for row in (-1, 1):
        with pytest.raises(IndexError):
            encode(struct.pack("=1i", row), 0, 0, 0, ALL, times, None, None, None, None, None)
    with pytest.raises(IndexError):
        encode(struct.pack("=1i", 0), -1, 0, 0, ALL, times, None, None, None, None, None)
    lists = Column(struct.pack("=2i", 0, 1), None, None, 0)
    with pytest.raises(IndexError):
        encode(struct.pack("=1i", 0), 0, 0, 0, ALL, times, None, None, lists, column([None]), None)


@pytest.mark.parametrize(("timestamp", "base"), [(2**63 - 1, -1), (-(2**63), 1), (0, -(2**63))])
def test_a_timestamp_too_far_from_that_of_the_batch_is_refused(encode: Encode, timestamp: int, base: int) -> None:
    """The delta has 64 bits."""
    times = struct.pack("=1q", timestamp)
    with pytest.raises(OverflowError):
        encode(struct.pack("=1i", 0), 0, 0, base, ALL, times, None, None, None, None, None)
