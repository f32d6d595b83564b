"""Crashes at every disk call of a cleaning: the log that is found has every key, and can be cleaned again."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable

import pytest
from compaction_helpers import COMPACTED, DELETE_RETENTION_MS, CompactedLog
from compaction_model import Model
from simulated_disk import SimulatedCrash, SimulatedDisk

from oncelog.protocol.records.compression import Compression


def dirty_model() -> Model:
    """Several segments of everything: a part that was cleaned before, tombstones, transactions, a producer."""
    model = Model()
    model.write([(b"a", False), (b"b", False)], -1, Compression.NONE)
    model.write([(b"a", True), (b"c", False)], 1, Compression.LZ4)
    model.write([(b"c", False)], 2, Compression.NONE)
    model.write([(b"c", False)], 3, Compression.NONE)
    model.end(2, commit=False)
    model.end(3, commit=True)
    model.roll()
    model.clean(1000)
    model.wait(2 * DELETE_RETENTION_MS)
    for i in range(4):
        model.write([(b"a", i == 1), (b"b", False)], 1, Compression.NONE)
        model.write([(b"c", False), (b"b", False)], 2, Compression.LZ4)
        model.end(2, commit=bool(i % 2))
    model.write([(b"a", True)], 3, Compression.NONE)
    model.roll()
    model.write([(b"b", False)], -1, Compression.NONE)
    model.end(3, commit=True)
    model.roll()
    model.log.settle()
    model.log.log.maybe_remove_files(model.log.now_ms)
    return model


def clean_until_crash(model: Model, crash_at: int) -> bool:
    disk = model.log.disk
    disk.crash_at = len(disk.calls) + crash_at
    try:
        model.log.clean()
        # The second one finds the markers obsolete, and meets segments that were grouped.
        model.write([(b"d" * 50, False)], -1, Compression.NONE)
        model.roll()
        model.log.clean()
    except SimulatedCrash:
        return True
    return False


def check_what_is_left(model: Model, disk: SimulatedDisk) -> None:
    again = CompactedLog(COMPACTED.replace(segment_bytes=500), disk)
    assert not again.manager.failures
    again.now_ms, again.sequences = model.log.now_ms, dict(model.log.sequences)
    producers = {p: (e.epoch, e.last_sequence) for p, e in model.log.log.producers.entries.items()}
    assert {p: (e.epoch, e.last_sequence) for p, e in again.log.producers.entries.items()} == producers
    survivor = copy.copy(model)
    survivor.log = again
    survivor.written = [written for written in model.written if written.read.offset < again.log.end_offset]
    survivor.check()
    leftover = (".cleaned", ".swap", ".deleted")
    assert not [name for name in disk.listdir("/data/t-0") if name.endswith(leftover)]
    survivor.write([(b"a", False)], 1, Compression.NONE)
    survivor.roll()
    while again.clean():
        survivor.check()
    survivor.restart(with_snapshots=False)


def crash_everywhere(after: Callable[[SimulatedDisk, int], list[SimulatedDisk]]) -> int:
    crash_at = 0
    crashed = True
    while crashed:
        crash_at += 1
        model = dirty_model()
        crashed = clean_until_crash(model, crash_at)
        for disk in after(model.log.disk, crash_at):
            check_what_is_left(model, disk)
    return crash_at


def test_a_kill_at_every_call() -> None:
    assert crash_everywhere(lambda disk, n: [disk.after_kill()]) > 40


def test_a_power_cut_at_every_call() -> None:
    def after(disk: SimulatedDisk, n: int) -> list[SimulatedDisk]:
        return [disk.after_power_cut(random.Random(f"{n}.{i}")) for i in range(3)]

    assert crash_everywhere(after) > 40


@pytest.mark.parametrize("kind", ["create", "pwrite", "fdatasync"])
def test_a_full_disk_leaves_the_log_as_it_was(kind: str) -> None:
    model = dirty_model()
    before = model.log.read()
    model.log.disk.fail(kind, 28)
    with pytest.raises(OSError, match="No space left"):
        model.log.clean()
    assert model.log.read() == before
    assert not [name for name in model.log.disk.listdir("/data/t-0") if name.endswith(".cleaned")]
    while model.log.clean():
        pass
    model.check()
    assert len(model.log.read()) < len(before)
