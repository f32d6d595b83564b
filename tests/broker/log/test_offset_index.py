from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated_disk import SimulatedDisk

from oncelog.broker.log.offset_index import OffsetIndex

steps = st.lists(st.tuples(st.integers(1, 1000), st.integers(1, 5000)), max_size=1500)


def build(
    pairs: list[tuple[int, int]], base: int, written: int
) -> tuple[SimulatedDisk, OffsetIndex, list[tuple[int, int]]]:
    """An index of which the first `written` entries are in the file."""
    disk = SimulatedDisk()
    index = OffsetIndex(disk, "/i", base)
    entries = []
    offset, position = base, 0
    for i, (offset_step, position_step) in enumerate(pairs):
        offset += offset_step
        position += position_step
        index.append(offset, position)
        entries.append((offset, position))
        if i + 1 == written:
            disk.close(index.write())
    return disk, index, entries


@given(steps, st.integers(0, 2**40), st.integers(0, 1500), st.integers(-10, 2_000_000))
def test_floors_are_those_of_a_list(pairs: list[tuple[int, int]], base: int, written: int, target: int) -> None:
    _, index, entries = build(pairs, base, written)
    assert len(index) == len(entries)
    below = [entry for entry in entries if entry[0] <= base + target]
    assert index.floor_offset(base + target) == (below[-1] if below else (base, 0))
    before = [position for _, position in entries if position <= target]
    assert index.floor_position(target) == (before[-1] if before else 0)
    assert index.last() == (entries[-1] if entries else (base, 0))


@given(steps, st.integers(0, 1500), st.integers(1, 2_000_000))
def test_truncate_and_write_again(pairs: list[tuple[int, int]], written: int, position: int) -> None:
    disk, index, entries = build(pairs, 7, written)
    index.truncate_to_position(position)
    kept = [entry for entry in entries if entry[1] < position]
    disk.close(index.write())
    content = b"".join(struct.pack(">ii", offset - 7, place) for offset, place in kept)
    assert disk.read_file("/i") == content
    again = OffsetIndex(disk, "/i", 7, len(kept))
    assert again.last() == (kept[-1] if kept else (7, 0))


def test_layout_is_kafkas() -> None:
    disk, index, _ = build([(5, 100), (6, 4200)], 1000, 0)
    disk.close(index.write())
    assert disk.read_file("/i").hex() == "0000000500000064" + "0000000b000010cc"


@pytest.mark.parametrize("count", [511, 512, 513, 4000])
def test_search_in_a_large_file(count: int) -> None:
    _, index, entries = build([(2, 3)] * count, 0, count)
    assert not index.positions
    for offset, position in entries[:: max(1, count // 50)]:
        assert index.floor_offset(offset) == (offset, position)
        assert index.floor_offset(offset + 1) == (offset, position)
        assert index.floor_position(position + 2) == position
