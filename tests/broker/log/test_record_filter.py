"""The two loops against the plain decoder, on records of every shape."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.log.offset_map import KEY_BYTES_MAX, OffsetMap, digest
from oncelog.broker.log.record_filter import filter_records, index_records
from oncelog.protocol.records.batch import HEADER_SIZE, assemble_batch, build_batch, read_header
from oncelog.protocol.records.record import Record, iter_records

lengths = st.sampled_from([0, 1, 10, KEY_BYTES_MAX - 1, KEY_BYTES_MAX, 63, 64, 200, 9000])
keys = st.builds(lambda length, fill: bytes([fill]) * length, lengths, st.integers(0, 1))
values = st.none() | st.builds(bytes, lengths)
timestamps = st.sampled_from([-1, 0, 5, 2**31, 2**40, 2**62])
headers = st.sampled_from([[], [("h", b"x")], [("h", None), ("long", bytes(300))]])
records = st.builds(Record, st.just(0), timestamps, st.none() | keys, values, headers)
batches = st.lists(records, min_size=1, max_size=20) | st.lists(records, min_size=1, max_size=1).map(
    lambda one: one * 200
)


def short(key: bytes) -> bytes:
    return key if len(key) < KEY_BYTES_MAX else digest(key)


@given(batches, st.integers(0, 25))
def test_the_map_has_the_last_offset_of_each_key(batch: list[Record], start: int) -> None:
    data = build_batch(batch, base_offset=100)
    offsets: dict[bytes, int] = {}
    index_records(bytes(data[HEADER_SIZE:]), len(batch), 100, 100 + start, offsets)
    expected = {
        short(record.key): record.offset
        for record in iter_records(data)
        if record.key is not None and record.offset >= 100 + start
    }
    assert offsets == expected


@given(batches, st.dictionaries(keys, st.integers(90, 130)), st.integers(90, 130), st.booleans())
def test_what_stays(batch: list[Record], newest: dict[bytes, int], latest_offset: int, drop_tombstones: bool) -> None:
    data = build_batch(batch, base_offset=100)
    header = read_header(data)
    kept = filter_records(
        bytes(data[HEADER_SIZE:]),
        len(batch),
        100,
        header.base_timestamp,
        {short(key): offset for key, offset in newest.items()},
        latest_offset,
        drop_tombstones,
    )

    def stays(record: Record) -> bool:
        if record.offset > latest_offset:
            return True
        if record.key is None or newest.get(record.key, -1) > record.offset:
            return False
        return record.value is not None or not drop_tombstones

    expected = [record for record in iter_records(data) if stays(record)]
    assert kept.record_count == len(expected)
    assert kept.max_timestamp == max((record.timestamp for record in expected), default=-1)
    assert kept.has_tombstone == any(record.value is None for record in expected)
    assert all(end < start for (_, end), (start, _) in zip(kept.ranges, kept.ranges[1:], strict=False))
    body = b"".join(bytes(data[HEADER_SIZE:][start:end]) for start, end in kept.ranges)
    whole = header._replace(record_count=len(expected))
    assert list(iter_records(assemble_batch(whole, body))) == expected


def test_the_map_is_bounded_but_always_takes_a_batch() -> None:
    offset_map = OffsetMap(1, 0.9)
    assert not offset_map.is_full
    offset_map.offsets[b"k"] = 1
    assert offset_map.is_full
    assert 600_000 < OffsetMap(128 * 1024 * 1024, 0.9).capacity < 800_000


def test_digests_cannot_be_taken_for_keys() -> None:
    assert len(digest(b"x" * KEY_BYTES_MAX)) == KEY_BYTES_MAX
