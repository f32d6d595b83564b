"""Crashes at every disk call of a scenario: what was flushed stays, nothing torn is served, the log goes on.

A scenario runs on the simulated disk and is stopped at its n-th call, for every n. It tells the `Witness`
what it did as it goes; the witness then opens what a kill or a power cut left and compares.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from contextlib import suppress

import pytest
from crash_witness import Witness
from log_helpers import CONFIG, NOW, open_manager
from simulated_disk import SimulatedCrash, SimulatedDisk

from oncelog.broker.log import large_snapshots, removal
from oncelog.broker.log.disk import StorageError
from oncelog.protocol.errors import KafkaError

RANDOM_HISTORIES = 40
WEIGHTS = {
    "append": 20,
    "idempotent": 20,
    "mark": 8,
    "roll": 5,
    "flush": 12,
    "flush beside": 4,
    "checkpoint": 6,
    "truncate": 4,
    "records": 3,
    "segments": 3,
    "clean": 3,
    "restart": 3,
    "snapshot": 4,
}

Scenario = Callable[[Witness], None]


@pytest.fixture(autouse=True, params=["small snapshots", "large snapshots"])
def small_steps(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """So that what is done in steps takes several for a few segments and producers."""
    monkeypatch.setattr(removal, "SEGMENTS_AT_ONCE", 2)
    if request.param == "large snapshots":
        monkeypatch.setattr(large_snapshots, "ENTRIES_MIN", 1)
        monkeypatch.setattr(large_snapshots, "_ENTRIES_AT_ONCE", 1)


def write_and_roll(w: Witness) -> None:
    for i in range(6):
        w.append(2)
        w.append(1, producer_id=1)
        if i % 2:
            w.flush()
    w.log.roll(now_ms=NOW)
    w.append(3, producer_id=1)
    w.manager.write_checkpoints()
    w.append(1)
    w.flush()


def transactions(w: Witness) -> None:
    w.append(2, producer_id=1, transactional=True)
    w.append(2, producer_id=2, transactional=True)
    w.append(1)
    w.flush()
    w.mark(1, commit=False)
    w.append(2, producer_id=1, transactional=True)
    for _ in range(4):
        w.append(3)
    w.flush()
    w.manager.write_checkpoints()
    w.mark(2, commit=True)
    w.log.roll(now_ms=NOW)
    w.mark(1, commit=False)
    w.flush()
    w.append(1, producer_id=3, transactional=True)
    w.log.roll(now_ms=NOW)
    w.append(1)
    w.flush()
    w.manager.write_checkpoints()


def delete_from_the_front(w: Witness) -> None:
    for _ in range(12):
        w.append(2, producer_id=1)
        w.append(1)
    w.flush()
    w.delete_records(4)
    w.manager.write_checkpoints()
    w.start_min = 4
    w.delete_segments(w.log.segments.base_offsets[-1])
    w.log.maybe_remove_files(NOW)
    w.manager.write_checkpoints()
    w.append(2, producer_id=1)
    w.flush()


def truncate_the_end(w: Witness) -> None:
    for _ in range(10):
        w.append(2, producer_id=1)
        w.append(1)
    w.append(1, producer_id=2, transactional=True)
    w.mark(2, commit=False)
    w.flush()
    w.manager.write_checkpoints()
    w.truncate(14)
    w.sequences[1] = w.log.producers.entries[1].last_sequence + 1
    w.append(2, producer_id=1)
    w.append(4)
    w.flush()
    w.truncate(5)
    w.append(4)
    w.manager.write_checkpoints()
    w.append(4)


def replace_segments(w: Witness) -> None:
    for _ in range(4):
        w.append(2, producer_id=1, transactional=True)
        w.append(2)
        w.append(1)
        w.mark(1, commit=False)
        w.append(2)
    w.log.roll(now_ms=NOW)
    w.append(1)
    w.flush()
    w.manager.write_checkpoints()
    w.clean()
    w.append(2)
    w.flush()
    w.clean()
    w.append(2)


def stop_and_start(w: Witness) -> None:
    w.append(2, producer_id=1)
    w.append(1, producer_id=3, transactional=True)
    w.mark(3, commit=False)
    w.append(1, producer_id=2, transactional=True)
    w.flush()
    w.manager.write_checkpoints()
    w.restart()
    for _ in range(5):
        w.append(2, producer_id=1)
    w.mark(2, commit=False)
    w.flush()
    w.append(1, producer_id=1)


def close_a_segment_at_the_recovery_point(w: Witness) -> None:
    """Recovery begins behind a segment whose indexes were written after the last flush."""
    w.append(1, producer_id=1, transactional=True)
    w.mark(1, commit=False)
    w.flush()
    w.manager.write_checkpoints()
    w.log.roll(now_ms=NOW)
    w.append(1)
    ticket = w.log.begin_flush(ahead=True)
    w.log.roll(now_ms=NOW)
    assert ticket is not None
    ticket.run()
    w.required_end = w.log.complete_flush(ticket)
    w.manager.write_checkpoints()
    w.append(1)


def delete_what_only_a_new_snapshot_knows(w: Witness) -> None:
    w.append(2, producer_id=1)
    w.append(1, producer_id=2, transactional=True)
    w.flush()
    w.manager.write_checkpoints()
    w.log.roll(now_ms=NOW)
    w.delete_segments(w.log.end_offset)
    w.log.maybe_remove_files(NOW)
    w.append(1)


def change_indexes_that_a_closing_vouched_for(w: Witness) -> None:
    for _ in range(2):
        w.append(1, producer_id=1, transactional=True)
        w.mark(1, commit=False)
    w.flush()
    w.manager.write_checkpoints()
    for _ in range(2):
        w.restart()
        w.append(1, producer_id=1, transactional=True)
        w.mark(1, commit=False)
    w.log.roll(now_ms=NOW)
    w.append(1)


SCENARIOS: list[Scenario] = [
    write_and_roll,
    transactions,
    delete_from_the_front,
    truncate_the_end,
    replace_segments,
    stop_and_start,
    close_a_segment_at_the_recovery_point,
    delete_what_only_a_new_snapshot_knows,
    change_indexes_that_a_closing_vouched_for,
]


def random_scenario(seed: int) -> Scenario:
    """Some thirty operations in no particular order."""

    def run(w: Witness) -> None:
        rng = random.Random(seed)
        for _ in range(rng.randint(5, 40)):
            random_operation(w, rng)

    return run


def random_operation(w: Witness, rng: random.Random) -> None:
    producer_id = rng.randint(1, 3)
    kind = rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    if kind == "append":
        w.append(rng.randint(1, 4))
    elif kind == "idempotent":
        w.append_idempotent(producer_id, rng)
    elif kind == "mark":
        w.mark(producer_id, commit=rng.random() < 0.5)
    elif kind == "roll":
        w.log.roll(now_ms=NOW)
    elif kind == "flush":
        w.flush()
    elif kind == "flush beside":
        w.flush_beside(rng)
    elif kind == "snapshot":
        w.write_large_snapshot(rng)
    elif kind == "restart":
        w.restart()
    elif kind == "checkpoint":
        w.manager.write_checkpoints()
    elif kind == "truncate" and not w.optional:
        starts = [h.base_offset for h, _ in w.history.headers(w.log.end_offset)]
        starts = [offset for offset in starts if offset >= w.log.log_start_offset]
        if starts:
            w.truncate(rng.choice(starts))
    elif kind == "records":
        w.delete_records(rng.randint(w.log.log_start_offset, w.log.high_watermark))
    elif kind == "segments" and w.log.active.base_offset <= w.log.high_watermark:
        w.delete_segments(w.log.segments.base_offsets[rng.randrange(len(w.log.segments.items))], rng)
        w.log.maybe_remove_files(NOW)
    elif kind == "clean" and len(w.log.closed_segments()) > 1:
        w.flush()
        w.manager.write_checkpoints()
        w.clean(rng)


def run_until_crash(scenario: Scenario, crash_at: int) -> tuple[Witness | None, SimulatedDisk, bool]:
    disk = SimulatedDisk()
    disk.rng = random.Random(crash_at)
    witness = Witness(disk)
    disk.crash_at = len(disk.calls) + crash_at
    try:
        scenario(witness)
    except SimulatedCrash:
        return witness, disk, True
    return witness, disk, False


def crash_everywhere(scenario: Scenario, after: Callable[[SimulatedDisk, int], list[SimulatedDisk]]) -> int:
    crash_at = 0
    crashed = True
    while crashed:
        crash_at += 1
        witness, disk, crashed = run_until_crash(scenario, crash_at)
        assert witness is not None
        history = list(witness.history.batches)
        for left in after(disk, crash_at):
            witness.history.batches = list(history)
            witness.check(left)
    return crash_at


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_kill_at_every_call(scenario: Scenario) -> None:
    points = crash_everywhere(scenario, lambda disk, n: [disk.after_kill()])
    assert points > 10


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_power_cut_at_every_call(scenario: Scenario) -> None:
    def after(disk: SimulatedDisk, n: int) -> list[SimulatedDisk]:
        return [disk.after_power_cut(random.Random(f"{n}.{i}")) for i in range(6)]

    assert crash_everywhere(scenario, after) > 10


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_crash_while_recovering(scenario: Scenario) -> None:
    """The second crash comes at some call of the recovery from the first, and then the power goes."""
    rng = random.Random(scenario.__name__)
    _, disk, _ = run_until_crash(scenario, 10**9)
    points = len(disk.calls)
    for _ in range(60):
        witness, disk, _ = run_until_crash(scenario, rng.randint(1, points))
        assert witness is not None
        left = disk.after_power_cut(rng) if rng.random() < 0.5 else disk.after_kill()
        left.crash_at = rng.randint(1, 25)
        try:
            manager = open_manager(left)
            manager.get("t", 0, now_ms=NOW)
        except SimulatedCrash:
            pass
        witness.check(left.after_power_cut(rng) if rng.random() < 0.7 else left.after_kill())


def run_until_failed_sync(scenario: Scenario, number: int) -> tuple[Witness, bool]:
    """The sync of that number fails, and what the scenario does then. False if it has fewer."""
    disk = SimulatedDisk()
    disk.rng = random.Random(number)
    witness = Witness(disk)
    disk.fail("fdatasync", *[0] * (number - 1), errno.EIO)
    with suppress(OSError, StorageError, KafkaError):
        scenario(witness)
    return witness, not disk.failures["fdatasync"]


def recover_until_failed_sync(disk: SimulatedDisk, number: int) -> SimulatedDisk:
    """A start that fails because the device still does."""
    disk.fail("fdatasync", *[0] * (number - 1), errno.EIO)
    with suppress(StorageError):
        open_manager(disk)
    return disk


@pytest.mark.parametrize("stopped", [False, True], ids=["killed", "stopped"])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_failed_sync(scenario: Scenario, stopped: bool) -> None:
    """Its pages are readable and clean, and not on the device: after a restart nothing of that may be promised."""
    number = 0
    failed = True
    while failed:
        number += 1
        witness, failed = run_until_failed_sync(scenario, number)
        disk = witness.disk
        if stopped:
            with suppress(StorageError):
                witness.stop()
        history = list(witness.history.batches)
        rng = random.Random(number)
        for left in (
            disk.after_kill(),
            disk.after_kill(evict=rng),
            disk.after_power_cut(rng),
            recover_until_failed_sync(disk.after_kill(), rng.randint(1, 8)).after_kill(),
            recover_until_failed_sync(disk.after_kill(), rng.randint(1, 8)).after_power_cut(rng),
        ):
            witness.history.batches = list(history)
            witness.check(left)
    assert number > 3


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_crash_while_recovering_from_a_failed_sync(scenario: Scenario) -> None:
    rng = random.Random(scenario.__name__)
    _, disk, _ = run_until_crash(scenario, 10**9)
    syncs = disk.calls.count("fdatasync")
    for _ in range(60):
        witness, _ = run_until_failed_sync(scenario, rng.randint(1, syncs))
        left = witness.disk.after_kill(rng)
        left.crash_at = rng.randint(1, 25)
        with suppress(SimulatedCrash):
            open_manager(left)
        witness.check(left.after_power_cut(rng) if rng.random() < 0.7 else left.after_kill())


@pytest.mark.parametrize("part", range(4))
def test_random_histories(part: int) -> None:
    for seed in range(part * RANDOM_HISTORIES, (part + 1) * RANDOM_HISTORIES):
        rng = random.Random(seed)
        scenario = random_scenario(seed)
        _, disk, _ = run_until_crash(scenario, 10**9)
        witness, disk, _ = run_until_crash(scenario, rng.randint(1, len(disk.calls)))
        assert witness is not None
        history = list(witness.history.batches)
        for left in (disk.after_kill(), disk.after_power_cut(rng), disk.after_power_cut(rng)):
            witness.history.batches = list(history)
            try:
                witness.check(left)
            except BaseException as error:
                error.add_note(f"seed {seed}")
                raise


@pytest.mark.parametrize("part", range(4))
def test_random_lives(part: int) -> None:
    """Start after start on a device that fails now and then: nothing that a start has promised is lost."""
    for seed in range(part * RANDOM_HISTORIES, (part + 1) * RANDOM_HISTORIES):
        rng = random.Random(seed)
        disk = SimulatedDisk()
        witness = Witness(disk)
        try:
            for _ in range(rng.randint(1, 5)):
                live_and_die(witness, rng)
                witness.resume(next_disk(witness.disk, rng))
            witness.check(next_disk(witness.disk, rng))
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


def live_and_die(witness: Witness, rng: random.Random) -> None:
    disk = witness.disk
    disk.rng = rng
    disk.fail("fdatasync", *[0] * rng.randint(0, 40), errno.EIO)
    disk.crash_at = len(disk.calls) + rng.randint(1, 200)
    with suppress(SimulatedCrash):
        try:
            for _ in range(rng.randint(1, 30)):
                random_operation(witness, rng)
        except (OSError, StorageError, KafkaError):
            if rng.random() < 0.5:
                with suppress(StorageError):
                    witness.stop()


def next_disk(disk: SimulatedDisk, rng: random.Random) -> SimulatedDisk:
    left = disk.after_power_cut(rng) if rng.random() < 0.3 else disk.after_kill(rng if rng.random() < 0.5 else None)
    if rng.random() < 0.3:
        left = recover_until_failed_sync(left, rng.randint(1, 8)).after_kill(rng)
    return left


def test_config_makes_several_segments() -> None:
    witness, disk, crashed = run_until_crash(write_and_roll, 10**9)
    assert witness is not None
    assert not crashed
    assert len(witness.log.segments.items) > 2
    assert CONFIG.segment_bytes < witness.log.size_bytes
    assert disk.calls.count("fdatasync") > 10
