from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st
from simulated_disk import SimulatedDisk

from oncelog.broker.log.time_index import TimeIndex

steps = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 1000)), max_size=800)


def build(
    pairs: list[tuple[int, int]], base: int, written: int
) -> tuple[SimulatedDisk, TimeIndex, list[tuple[int, int]]]:
    disk = SimulatedDisk()
    index = TimeIndex(disk, "/i", base)
    entries: list[tuple[int, int]] = []
    timestamp, offset = 1000, base
    for i, (time_step, offset_step) in enumerate(pairs):
        timestamp += time_step
        offset += offset_step
        index.maybe_append(timestamp, offset)
        if not entries or timestamp > entries[-1][0]:
            entries.append((timestamp, offset))
        if i + 1 == written:
            disk.close(index.write())
    return disk, index, entries


@given(steps, st.integers(0, 2**40), st.integers(0, 800), st.integers(0, 50_000))
def test_floor_is_that_of_a_list(pairs: list[tuple[int, int]], base: int, written: int, timestamp: int) -> None:
    _, index, entries = build(pairs, base, written)
    assert len(index) == len(entries)
    below = [offset for stamp, offset in entries if stamp <= timestamp]
    assert index.floor(timestamp) == (below[-1] if below else base)
    assert index.last() == (entries[-1] if entries else (-1, base))


@given(steps, st.integers(0, 800), st.integers(1, 200_000))
def test_truncate_and_write_again(pairs: list[tuple[int, int]], written: int, offset: int) -> None:
    disk, index, entries = build(pairs, 7, written)
    index.truncate_to(offset)
    kept = [entry for entry in entries if entry[1] < offset]
    assert index.last() == (kept[-1] if kept else (-1, 7))
    disk.close(index.write())
    content = b"".join(struct.pack(">qi", stamp, place - 7) for stamp, place in kept)
    assert disk.read_file("/i") == content
    index.maybe_append(10**9, 10**6)
    assert index.last() == (10**9, 10**6)


def test_layout_is_kafkas() -> None:
    disk, index, _ = build([(1, 5), (0, 6), (9, 7)], 100, 0)
    disk.close(index.write())
    assert disk.read_file("/i").hex() == "00000000000003e9" + "00000005" + "00000000000003f2" + "00000012"


def test_an_older_timestamp_adds_nothing_to_a_file() -> None:
    disk, _, _ = build([(5, 5)], 0, 1)
    again = TimeIndex(disk, "/i", 0, 1)
    again.maybe_append(1000, 9)
    assert len(again) == 1
    again.maybe_append(1006, 9)
    assert len(again) == 2
