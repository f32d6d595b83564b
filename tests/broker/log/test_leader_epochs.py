from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from simulated_disk import SimulatedDisk

from oncelog.broker.log import leader_epochs
from oncelog.broker.log.leader_epochs import LeaderEpochs


def test_end_offsets() -> None:
    epochs = LeaderEpochs([(1, 10), (3, 20), (4, 30)])
    assert epochs.end_offset_for(0, 40) == (0, 10)
    assert epochs.end_offset_for(1, 40) == (1, 20)
    assert epochs.end_offset_for(2, 40) == (1, 20)
    assert epochs.end_offset_for(3, 40) == (3, 30)
    assert epochs.end_offset_for(4, 40) == (4, 40)
    assert epochs.end_offset_for(5, 40) == (-1, -1)
    assert epochs.end_offset_for(-1, 40) == (-1, -1)
    assert LeaderEpochs().end_offset_for(0, 40) == (-1, -1)
    assert [epochs.epoch_for_offset(offset) for offset in (9, 10, 19, 20, 99)] == [-1, 1, 1, 3, 4]


def test_a_new_leader_drops_what_contradicts_it() -> None:
    epochs = LeaderEpochs([(1, 10), (3, 20), (5, 30)])
    epochs.assign(4, 25)
    assert epochs.entries() == [(1, 10), (3, 20), (4, 25)]
    epochs.assign(5, 20)
    assert epochs.entries() == [(1, 10), (5, 20)]
    epochs.dirty = False
    epochs.assign(5, 90)
    assert not epochs.dirty


def test_truncation() -> None:
    epochs = LeaderEpochs([(1, 10), (3, 20), (5, 30)])
    epochs.truncate_from_end(30)
    assert epochs.entries() == [(1, 10), (3, 20)]
    epochs.truncate_from_start(22)
    assert epochs.entries() == [(3, 22)]
    assert epochs.dirty
    epochs.truncate_from_start(5)
    assert epochs.entries() == [(3, 22)]
    epochs.truncate_from_end(0)
    assert epochs.latest == -1


def test_the_file_is_kafkas() -> None:
    disk = SimulatedDisk()
    disk.mkdir("/d")
    assert leader_epochs.read(disk, "/d") is None
    epochs = LeaderEpochs([(0, 0), (2, 17)])
    assert epochs.encode() == b"0\n2\n0 0\n2 17\n"
    disk.write_file_durably("/d/leader-epoch-checkpoint", epochs.encode())
    found = leader_epochs.read(disk, "/d")
    assert found is not None
    assert found.entries() == [(0, 0), (2, 17)]
    assert not found.dirty


def test_every_beginning_of_the_file_is_damaged() -> None:
    disk = SimulatedDisk()
    disk.mkdir("/d")
    whole = LeaderEpochs([(0, 0), (2, 17)]).encode()
    for size_bytes in range(len(whole)):
        disk.write_file_durably("/d/leader-epoch-checkpoint", whole[:size_bytes])
        assert leader_epochs.read(disk, "/d") is None


def test_no_epochs_are_something_else_than_no_file() -> None:
    disk = SimulatedDisk()
    disk.mkdir("/d")
    disk.write_file_durably("/d/leader-epoch-checkpoint", LeaderEpochs().encode())
    found = leader_epochs.read(disk, "/d")
    assert found is not None
    assert found.entries() == []


@given(st.binary(max_size=20))
def test_damage_is_seen(data: bytes) -> None:
    disk = SimulatedDisk()
    disk.mkdir("/d")
    disk.write_file_durably("/d/leader-epoch-checkpoint", b"0\n2\n0 0\n" + data)
    found = leader_epochs.read(disk, "/d")
    assert found is None or len(found.epochs) <= 2


@given(st.lists(st.tuples(st.integers(0, 10), st.integers(0, 100)), max_size=30))
def test_entries_ascend_whatever_is_assigned(assigned: list[tuple[int, int]]) -> None:
    epochs = LeaderEpochs()
    for epoch, start in assigned:
        epochs.assign(epoch, start)
        entries = epochs.entries()
        assert entries == sorted(entries)
        assert len({e for e, _ in entries}) == len({s for _, s in entries}) == len(entries)
        assert epochs.latest == entries[-1][0]
