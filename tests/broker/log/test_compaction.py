from __future__ import annotations

from collections.abc import Callable

import pytest
from compaction_helpers import COMPACTED, DELETE_RETENTION_MS, CompactedLog, Read
from log_helpers import NOW, read_all
from simulated_disk import SimulatedDisk

from oncelog.broker.log import compaction
from oncelog.broker.log.cleaner import SEGMENTS_AT_ONCE, clean, group_segments
from oncelog.broker.log.compaction import first_dirty_offset, is_unchanged, plan_cleaning
from oncelog.broker.log.disk import StorageError
from oncelog.broker.log.offset_map import KEY_BYTES_MAX, OffsetMap
from oncelog.broker.log.steps import run
from oncelog.protocol.records.batch import TimestampType, read_header
from oncelog.protocol.records.compression import Compression
from oncelog.protocol.records.record import iter_records


class InterruptedDisk(SimulatedDisk):
    """Does something else between the reading of a file and the use of what was read, as another thread may."""

    def __init__(self) -> None:
        super().__init__()
        self.interruptions: dict[str, Callable[[], object]] = {}

    def read_file(self, path: str) -> bytes:
        data = super().read_file(path)
        self.interruptions.pop(path, lambda: None)()
        return data


@pytest.fixture
def log() -> CompactedLog:
    return CompactedLog()


def test_the_last_record_of_each_key_stays_at_its_offset(log: CompactedLog) -> None:
    log.write((b"a", b"1"), (b"b", b"2"))
    log.write((b"a", b"3"))
    log.write((b"c", b"4"), (b"c", b"5"), (b"b", b"6"))
    log.clean_all()
    assert log.read() == [Read(2, b"a", b"3"), Read(4, b"c", b"5"), Read(5, b"b", b"6")]
    assert [(h.base_offset, h.last_offset) for h in log.headers()] == [(2, 2), (3, 5)]


def test_the_active_segment_is_left_alone_but_outdates_nothing(log: CompactedLog) -> None:
    log.write((b"a", b"1"))
    log.roll()
    log.write((b"a", b"2"))
    assert log.clean()
    assert [read.value for read in log.read()] == [b"1", b"2"]


@pytest.mark.parametrize("compression", list(Compression))
def test_codec_headers_and_timestamps_survive(compression: Compression) -> None:
    log = CompactedLog(COMPACTED.replace(segment_bytes=10_000))
    keys = [b"k%d" % i for i in range(5)] + [b"x" * (KEY_BYTES_MAX + i) for i in (-1, 0, 1, 200)]
    log.write(*[(key, b"old" * 30) for key in keys], compression=compression, timestamp=NOW - 70_000)
    log.write(*[(key, b"new" * 30) for key in keys[1:-1]], compression=compression)
    log.clean_all()
    kept = [(read_header(batch), list(iter_records(batch))) for batch in read_all(log.log)]
    assert [header.compression for header, _ in kept] == [compression] * 2
    (first, records), (second, _) = kept
    assert [(r.offset, r.key, r.timestamp) for r in records] == [
        (0, keys[0], NOW - 70_000),
        (8, keys[-1], NOW - 70_000),
    ]
    assert all(record.headers == [("h", b"x")] for record in records)
    assert (first.max_timestamp, second.max_timestamp) == (NOW - 70_000, NOW)
    assert len(log.read()) == 9


def test_log_append_time_stays_the_time_of_the_batch() -> None:
    log = CompactedLog(COMPACTED.replace(message_timestamp_type=TimestampType.LOG_APPEND_TIME))
    log.write((b"a", b"1"), (b"b", b"2"), timestamp=5)
    log.now_ms += 100
    log.write((b"a", b"3"), timestamp=6)
    log.clean_all()
    assert [r.timestamp for batch in read_all(log.log) for r in iter_records(batch)] == [NOW, NOW + 100]


def test_a_batch_of_which_all_stays_is_copied_as_it_is(log: CompactedLog) -> None:
    log.write((b"a", b"1"), (b"b", b"2"), compression=Compression.GZIP)
    log.write((b"c", b"1"))
    before = read_all(log.log)
    segment = log.log.segments.items[0]
    log.clean_all()
    assert read_all(log.log) == before
    assert log.log.segments.items[0] is segment, "a segment that would not change is not replaced"


class TestTombstones:
    def test_they_stay_for_a_time_after_their_first_cleaning(self, log: CompactedLog) -> None:
        log.write((b"a", b"1"))
        log.write((b"a", None), (b"b", b"1"))
        log.now_ms += 10 * DELETE_RETENTION_MS
        log.clean_all()
        assert log.read() == [Read(1, b"a", None), Read(2, b"b", b"1")]
        horizon_ms = log.now_ms + DELETE_RETENTION_MS
        assert [header.delete_horizon_ms for header in log.headers()] == [horizon_ms]
        stamps = [record.timestamp for batch in read_all(log.log) for record in iter_records(batch)]
        assert stamps == [NOW, NOW]

        log.now_ms = horizon_ms - 1
        log.write((b"c", b"1"))
        log.clean_all()
        assert log.headers()[0].delete_horizon_ms == horizon_ms
        assert log.read()[0] == Read(1, b"a", None)

        log.now_ms = horizon_ms
        log.write((b"d", b"1"))
        log.clean_all()
        assert [read.key for read in log.read()] == [b"b", b"c", b"d"]
        assert log.headers()[0].delete_horizon_ms == horizon_ms
        assert next(iter_records(read_all(log.log)[0])).timestamp == NOW

    def test_one_that_is_outdated_goes_at_once(self, log: CompactedLog) -> None:
        log.write((b"a", None))
        log.write((b"a", b"2"))
        log.clean_all()
        assert log.read() == [Read(1, b"a", b"2")]


class TestTransactions:
    def test_aborted_records_go_and_committed_ones_stay(self, log: CompactedLog) -> None:
        log.write((b"a", b"1"))
        log.write((b"a", b"aborted"), producer_id=1, transactional=True)
        log.write((b"b", b"committed"), producer_id=2, transactional=True)
        log.mark(1, commit=False)
        log.mark(2, commit=True)
        log.write((b"c", b"1"), producer_id=1)
        log.clean_all()
        assert log.read() == [Read(0, b"a", b"1"), Read(2, b"b", b"committed"), Read(5, b"c", b"1")]
        assert log.read_committed() == log.read()

    def test_a_marker_stays_until_its_records_and_then_its_horizon_are_gone(self, log: CompactedLog) -> None:
        log.write((b"a", b"1"), producer_id=1, transactional=True)
        marker = log.mark(1, commit=True)
        log.write((b"x", b"1"), producer_id=1)
        log.clean_all()
        assert [h.last_offset for h in log.headers()] == [0, marker, 2]

        log.write((b"a", b"2"))
        log.clean_all()
        # The record is outdated, so the marker is not needed: from the next cleaning on its time runs.
        first = log.headers()[0]
        assert (first.base_offset, first.delete_horizon_ms) == (marker, None)
        log.write((b"y", b"1"))
        log.clean_all()
        assert log.headers()[0].delete_horizon_ms == log.now_ms + DELETE_RETENTION_MS
        log.now_ms += DELETE_RETENTION_MS
        log.write((b"z", b"1"))
        log.clean_all()
        assert marker not in [h.base_offset for h in log.headers()]

    def test_an_abort_is_listed_while_its_marker_may_be_needed(self, log: CompactedLog) -> None:
        log.write((b"a", b"1"), producer_id=1, transactional=True)
        log.roll()
        marker = log.mark(1, commit=False)
        log.write((b"x", b"1"), producer_id=1)
        log.clean_all()
        assert log.read_committed() == [Read(2, b"x", b"1")]
        listed = log.log.aborted_transactions(0, log.log.end_offset)
        assert [txn[:3] for txn in listed] == [(1, 0, marker)]
        log.write((b"y", b"1"))
        log.clean_all()
        assert log.log.aborted_transactions(0, log.log.end_offset) == []

    def test_an_aborted_batch_is_found_by_a_marker_behind_the_cleaned_part(self, log: CompactedLog) -> None:
        log.write((b"a", b"0"))
        log.write((b"a", b"aborted"), producer_id=1, transactional=True)
        log.roll()
        open_txn = log.write((b"a", b"open"), producer_id=2, transactional=True)
        log.mark(1, commit=False)
        log.write((b"z", b"0"), producer_id=1)
        log.roll()
        log.write((b"z", b"1"))
        assert log.clean()
        assert log.manager.cleaner_offsets["t", 0] == open_txn
        assert [read.value for read in log.read()] == [b"0", b"open", b"0", b"1"]
        assert log.read_committed() == [Read(0, b"a", b"0")]

    def test_an_abort_while_the_cleaner_reads_the_index_that_it_is_added_to(self) -> None:
        disk = InterruptedDisk()
        log = CompactedLog(disk=disk)
        log.write((b"a", b"0"))
        log.roll()
        log.write((b"b", b"aborted"), producer_id=1, transactional=True)
        log.mark(1, commit=False)
        log.reopen()
        log.write((b"c", b"aborted"), producer_id=1, transactional=True)
        log.settle()
        plan = run(plan_cleaning(log.log, None, NOW))
        assert plan is not None
        active = log.log.active.path(".txnindex")
        disk.interruptions[active] = lambda: log.mark(1, commit=False)
        list(clean(plan, OffsetMap(10_000, 1.0), lambda size_bytes: None))
        if active in disk.interruptions:
            # The cleaner does without the file: the abort comes after it.
            disk.interruptions.pop(active)()
        log.roll()
        log.reopen()
        assert log.read_committed() == [Read(0, b"a", b"0")]

    def test_nothing_above_the_last_stable_offset_is_cleaned(self, log: CompactedLog) -> None:
        log.write((b"a", b"open"), producer_id=1, transactional=True)
        log.write((b"a", b"1"))
        log.write((b"a", b"2"))
        log.roll()
        assert not log.clean()
        log.mark(1, commit=True)
        log.roll()
        assert log.clean()


class TestProducers:
    def forget_snapshots(self, log: CompactedLog) -> None:
        for name in log.disk.listdir("/data/t-0"):
            if name.endswith(".snapshot"):
                log.disk.unlink(f"/data/t-0/{name}")

    def test_the_last_batch_of_a_producer_stays_without_records(self, log: CompactedLog) -> None:
        log.write((b"a", b"1"), (b"b", b"1"), producer_id=7)
        log.write((b"a", b"2"), (b"b", b"2"), producer_id=7)
        log.write((b"a", b"3"), (b"b", b"3"))
        log.clean_all()
        assert [read.value for read in log.read()] == [b"3", b"3"]
        empty = log.headers()[0]
        assert (empty.base_offset, empty.last_offset, empty.record_count) == (2, 3, 0)
        assert (empty.producer_id, empty.producer_epoch, empty.base_sequence, empty.last_sequence) == (7, 0, 2, 3)
        log.write((b"c", b"3"))
        log.clean_all()
        assert log.headers()[0] == empty

        log.manager.close()
        log.disk.locked.clear()
        self.forget_snapshots(log)
        again = CompactedLog(disk=log.disk)
        assert again.log.producers.entries[7].last_sequence == 3
        again.sequences[7] = 4
        again.write((b"d", b"1"), producer_id=7)

    def test_a_producer_that_is_forgotten_keeps_nothing(self, log: CompactedLog) -> None:
        log.write((b"a", b"1"), producer_id=7)
        log.write((b"a", b"3"))
        run(log.log.expire_producers(NOW + 10**9))
        log.clean_all()
        assert [h.base_offset for h in log.headers()] == [1]

    def test_a_marker_that_alone_knows_the_epoch_stays(self, log: CompactedLog) -> None:
        log.write((b"a", b"1"), producer_id=7, transactional=True)
        marker = log.mark(7, commit=False, epoch=1)
        log.write((b"b", b"1"))
        for _ in range(3):
            log.clean_all()
            log.now_ms += 2 * DELETE_RETENTION_MS
            log.write((b"b", b"1"))
        assert log.headers()[0].base_offset == marker
        assert log.headers()[0].producer_epoch == 1

    def test_the_last_batch_of_a_round_stays_without_records(self, log: CompactedLog) -> None:
        log.write((b"a", b"1"))
        log.write((b"b", b"1"), producer_id=7, transactional=True)
        log.mark(7, commit=False)
        run(log.log.expire_producers(NOW + 10**9))
        log.write((b"c", b"1"), producer_id=9, transactional=True)
        log.mark(9, commit=False)
        log.roll()
        run(log.log.expire_producers(NOW + 10**9))
        log.clean()
        assert [(h.base_offset, h.record_count) for h in log.headers()] == [(0, 1), (2, 1), (4, 1)]


class TestDecision:
    def test_only_a_part_that_is_dirty_enough(self, log: CompactedLog) -> None:
        log.log.config = log.config.replace(min_cleanable_dirty_ratio=0.5)
        log.write((b"a", b"1" * 100))
        log.roll()
        log.settle()
        assert run(plan_cleaning(log.log, 1, NOW)) is None
        plan = run(plan_cleaning(log.log, 0, NOW))
        assert plan is not None
        assert (plan.ratio, plan.first_dirty_offset, plan.end_offset) == (1.0, 0, 1)
        log.write((b"b", b"1" * 100))
        log.roll()
        log.settle()
        assert run(plan_cleaning(log.log, 1, NOW)) is None, "half of it is not more than half"
        log.write((b"c", b"1"))
        log.roll()
        log.settle()
        plan = run(plan_cleaning(log.log, 1, NOW))
        assert plan is not None
        assert 0.5 < plan.ratio < 0.7

    def test_young_segments_wait(self, log: CompactedLog) -> None:
        log.log.config = log.config.replace(min_compaction_lag_ms=1000)
        for _ in range(3):
            log.write((b"a", b"1"))
            log.roll()
            log.now_ms += 600
        log.settle()
        assert run(plan_cleaning(log.log, None, NOW + 999)) is None
        for now_ms, end_offset in ((NOW + 1000, 1), (NOW + 1599, 1), (NOW + 1600, 2), (NOW + 2200, 3)):
            plan = run(plan_cleaning(log.log, None, now_ms))
            assert plan is not None
            assert plan.end_offset == end_offset

    def test_an_overdue_segment_does_not_wait_for_the_ratio(self, log: CompactedLog) -> None:
        log.log.config = log.config.replace(min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=1000)
        log.write((b"a", b"1"))
        log.roll()
        log.settle()
        assert run(plan_cleaning(log.log, None, NOW + 1000)) is None
        assert run(plan_cleaning(log.log, None, NOW + 1001)) is not None
        assert run(plan_cleaning(log.log, 1, NOW + 1001)) is None, "what is clean is never overdue"

    def test_an_impossible_checkpoint_means_that_nothing_is_clean(self, log: CompactedLog) -> None:
        log.write((b"a", b"1"), (b"b", b"1"), (b"c", b"1"))
        log.settle()
        log.log.delete_records_before(1)
        for clean_offset, expected in ((None, 1), (0, 1), (1, 1), (2, 2), (3, 3), (4, 1)):
            assert first_dirty_offset(log.log, clean_offset) == expected

    def test_small_segments_are_grouped(self, log: CompactedLog) -> None:
        for i in range(10):
            log.write((b"%d" % i, b"v" * 100))
            log.roll()
        log.settle()
        plan = run(plan_cleaning(log.log, None, NOW))
        assert plan is not None
        groups = group_segments(plan, plan.end_offset)
        assert [len(group) for group in groups] == [3, 3, 3, 1]
        assert [len(group) for group in group_segments(plan, 5)] == [3, 2]
        assert is_unchanged(plan, groups[1])
        log.log.delete_segments_before(4, now_ms=NOW)
        assert not is_unchanged(plan, groups[1])
        assert is_unchanged(plan, groups[2])

    def test_planning_pauses_between_segments_and_producers(
        self, log: CompactedLog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Segments that nobody has read since a restart have to be opened for it, and producers may be very many."""
        monkeypatch.setattr(compaction, "_PRODUCERS_AT_ONCE", 2)
        log.log.config = log.log.config.replace(min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=10)
        for i in range(20):
            log.write((b"%d" % i, b"v"), producer_id=i)
            log.roll()
        log.settle()
        assert run(plan_cleaning(log.log, None, NOW)) is None
        assert list(plan_cleaning(log.log, None, NOW)) == [None] * 20
        log.log.config = log.log.config.replace(min_cleanable_dirty_ratio=0.5)
        assert len(list(plan_cleaning(log.log, None, NOW))) == 10

    def test_no_more_are_merged_at_once_than_can_be_exchanged_quickly(self, log: CompactedLog) -> None:
        log.log.config = log.log.config.replace(segment_bytes=10**6)
        for i in range(2 * SEGMENTS_AT_ONCE + 1):
            log.write((b"%d" % i, b"v"))
            log.roll()
        log.settle()
        plan = run(plan_cleaning(log.log, None, NOW))
        assert plan is not None
        groups = group_segments(plan, plan.end_offset)
        assert [len(group) for group in groups] == [SEGMENTS_AT_ONCE, SEGMENTS_AT_ONCE, 1]


def test_several_passes_when_the_keys_do_not_fit(log: CompactedLog) -> None:
    for i in range(40):
        log.write((b"k%d" % (i % 10), b"%d" % i))
    log.roll()
    rounds = 0
    while log.clean(keys_max=4):
        rounds += 1
    assert rounds > 3
    assert [(read.offset, read.key) for read in log.read()] == [(30 + i, b"k%d" % i) for i in range(10)]


def test_an_abort_behind_the_keys_that_fit_is_not_forgotten(log: CompactedLog) -> None:
    log.write((b"a", b"1"))
    log.write((b"b", b"1"))
    log.write((b"a", b"aborted"), producer_id=3, transactional=True)
    log.mark(3, commit=False)
    log.roll()
    assert log.clean(keys_max=1)
    assert log.manager.cleaner_offsets["t", 0] < 2
    assert log.read_committed() == [Read(0, b"a", b"1"), Read(1, b"b", b"1")]


def test_damage_is_found_and_not_copied(log: CompactedLog) -> None:
    log.write((b"a", b"1" * 50))
    log.write((b"b", b"1"))
    log.write((b"b", b"2"))
    log.roll()
    log.settle()
    file = log.disk.names["/data/t-0/00000000000000000000.log"]
    assert file is not None
    file.data[90] ^= 1
    with pytest.raises(StorageError, match="checksum"):
        log.clean()
    assert not [name for name in log.disk.listdir("/data/t-0") if name.endswith(".cleaned")]


def test_the_cleaner_checkpoint_is_kafkas(log: CompactedLog) -> None:
    log.write((b"a", b"1"))
    log.clean_all()
    assert log.disk.read_file("/data/cleaner-offset-checkpoint") == b"0\n1\nt 0 1\n"
    log.reopen()
    assert log.manager.cleaner_offsets == {("t", 0): 1}
    log.manager.delete("t", 0, token="x", now_ms=NOW)
    log.manager.write_checkpoints()
    assert log.disk.read_file("/data/cleaner-offset-checkpoint") == b"0\n0\n"
