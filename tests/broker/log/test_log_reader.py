from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_helpers import CONFIG, NOW, append, batch_of, open_log, read_all
from simulated_disk import SimulatedDisk

from oncelog.broker.log import log_reader, txn_index
from oncelog.broker.log.disk import StorageError
from oncelog.broker.log.log_reader import TimestampOffset
from oncelog.broker.log.partition_log import PartitionLog
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.records.batch import (
    ATTRIBUTES_POSITION,
    CRC_POSITION,
    HEADER_SIZE,
    MAGIC_POSITION,
    TimestampType,
    compute_crc,
    iter_headers,
    read_header,
)

Ask = Callable[[PartitionLog], TimestampOffset | None]


class CountingDisk(SimulatedDisk):
    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    def pread(self, fd: int, size_bytes: int, position: int) -> bytes:
        self.reads += 1
        return super().pread(fd, size_bytes, position)


def fill(log: PartitionLog, counts: list[int]) -> list[bytes]:
    batches = []
    for count in counts:
        batch = batch_of(count)
        append(log, batch)
        batches.append(bytes(batch))
    return batches


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 8), min_size=1, max_size=40),
    st.data(),
    st.booleans(),
)
def test_reads_are_those_of_a_list(counts: list[int], data: st.DataObject, reopen: bool) -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    batches = fill(log, counts)
    if reopen:
        log.close()
        log = open_log(disk, clean=True, recovery_point=log.end_offset)
    headers = [read_header(batch) for batch in batches]
    for _ in range(10):
        offset = data.draw(st.integers(0, log.end_offset))
        end = data.draw(st.integers(0, log.end_offset))
        size_max = data.draw(st.integers(0, 1500))
        min_one = data.draw(st.booleans())
        result = log.read(offset, size_bytes_max=size_max, end_offset=end, min_one=min_one)
        found = [header for _, header in iter_headers(result.records)]
        assert sum(header.size_bytes for header in found) == len(result.records), "whole batches only"
        readable = [h for h in headers if h.last_offset >= offset and h.last_offset < end]
        if offset < end and any(h.base_offset < end <= h.last_offset for h in headers):
            readable = [h for h in readable if h.last_offset < end]
        assert found == readable[: len(found)], "no gap, never past the end"
        if len(found) > 1 or not min_one:
            assert len(result.records) <= size_max
        if readable and offset < end and (min_one or readable[0].size_bytes <= size_max):
            assert found, "at least one batch"
        if found:
            assert result.next_offset > found[-1].last_offset
            assert result.next_offset <= max(end, found[-1].last_offset + 1)
            in_segment = [h for h in readable if h.base_offset < _end_of_segment(log, found[0].base_offset)]
            rest = in_segment[len(found) :]
            if rest:
                assert len(result.records) + rest[0].size_bytes > size_max, "as much as fits"


def _end_of_segment(log: PartitionLog, offset: int) -> int:
    return next((base for base in log.segments.base_offsets if base > offset), log.end_offset)


def test_outside_the_log() -> None:
    log = open_log(SimulatedDisk())
    fill(log, [2, 2])
    log.update_high_watermark(4)
    log.delete_records_before(1)
    for offset in (0, -1, 5):
        with pytest.raises(KafkaError) as raised:
            log.read(offset, size_bytes_max=100, end_offset=4)
        assert raised.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.read(4, size_bytes_max=100, end_offset=4).records == b""
    assert log.read(4, size_bytes_max=100, end_offset=2).records == b""


def test_mid_batch_gives_the_whole_batch() -> None:
    log = open_log(SimulatedDisk())
    batches = fill(log, [3, 5])
    result = log.read(5, size_bytes_max=1, end_offset=8)
    assert result.records == batches[1]
    assert result.next_offset == 8


def test_a_sequential_reader_reads_once_per_call() -> None:
    disk = CountingDisk()
    log = open_log(disk, config=CONFIG.replace(segment_bytes=10**6))
    batches = fill(log, [1] * 300)
    offset = 0
    disk.reads = 0
    for batch in batches[:200]:
        append(log, batch_of())
        result = log.read(offset, size_bytes_max=10**6, end_offset=offset + 1)
        del batch
        offset = result.next_offset
    # The first call looks the position up; afterwards it is known, and so is nothing else.
    assert disk.reads <= 2 * 200 + 1
    disk.reads = 0
    while offset < log.end_offset:
        offset = log.read(offset, size_bytes_max=10**6, end_offset=log.end_offset).next_offset
    assert disk.reads == 1


def test_the_cut_does_not_walk_all_batches() -> None:
    disk = CountingDisk()
    log = open_log(disk, config=CONFIG.replace(segment_bytes=10**7, index_interval_bytes=4096))
    fill(log, [1] * 3000)
    disk.reads = 0
    result = log.read(0, size_bytes_max=200_000, end_offset=log.end_offset)
    assert 199_000 < len(result.records) <= 200_000
    assert disk.reads <= 3


def test_a_damaged_index_is_rebuilt_from_the_records() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    batches = fill(log, [2] * 40)
    log.close()
    file = disk.names["/t-0/" + "0" * 20 + ".index"]
    assert file is not None
    file.data[:] = bytes.fromhex("0000000200000005") * (len(file.data) // 8)
    log = open_log(disk, clean=True, recovery_point=80)
    assert read_all(log) == batches
    for offset in range(12):
        assert log.read(offset, size_bytes_max=1, end_offset=80).records == batches[offset // 2]


class TestTimestamps:
    def make(self, stamps: list[list[int]]) -> PartitionLog:
        log = open_log(SimulatedDisk(), config=CONFIG.replace(message_timestamp_after_max_ms=10**9))
        for group in stamps:
            from oncelog.protocol.records.batch import build_batch
            from oncelog.protocol.records.record import Record

            append(log, build_batch([Record(0, stamp, b"k", b"v" * 30) for stamp in group]))
        return log

    @settings(max_examples=60, deadline=None)
    @given(
        st.lists(st.lists(st.integers(0, 300), min_size=1, max_size=4), min_size=1, max_size=30),
        st.integers(0, 310),
        st.integers(0, 20),
    )
    def test_the_first_record_that_is_not_older(self, stamps: list[list[int]], timestamp: int, start: int) -> None:
        log = self.make(stamps)
        flat = [stamp for group in stamps for stamp in group]
        log.update_high_watermark(log.end_offset)
        start = min(start, len(flat))
        log.delete_records_before(start)
        expected = next(((s, o) for o, s in enumerate(flat) if s >= timestamp and o >= start), None)
        found = log.offset_for_timestamp(timestamp)
        assert (found and found[:2]) == expected

    @settings(max_examples=40, deadline=None)
    @given(st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=4), min_size=1, max_size=30))
    def test_the_largest(self, stamps: list[list[int]]) -> None:
        log = self.make(stamps)
        flat = [stamp for group in stamps for stamp in group]
        found = log.max_timestamp()
        assert found is not None
        assert found[:2] == (max(flat), flat.index(max(flat)))

    def test_an_empty_log_has_none(self) -> None:
        log = open_log(SimulatedDisk())
        assert log.offset_for_timestamp(0) is None
        assert log.max_timestamp() is None
        append(log, batch_of(timestamp=-1))
        assert log.max_timestamp() is None

    def test_log_append_time(self) -> None:
        log = open_log(SimulatedDisk(), config=CONFIG.replace(message_timestamp_type=TimestampType.LOG_APPEND_TIME))
        append(log, batch_of(3, timestamp=1), now_ms=NOW)
        append(log, batch_of(3, timestamp=1), now_ms=NOW + 5)
        assert log.offset_for_timestamp(NOW + 1) == (NOW + 5, 3, 0)
        assert log.max_timestamp() == (NOW + 5, 5, 0)

    @pytest.mark.parametrize("ask", [lambda log: log.offset_for_timestamp(NOW + 2), PartitionLog.max_timestamp])
    @pytest.mark.parametrize("damaged", [MAGIC_POSITION, -3], ids=["header", "record"])
    def test_a_damaged_batch(self, damaged: int, ask: Ask) -> None:
        disk = SimulatedDisk()
        log = open_log(disk, config=CONFIG.replace(index_interval_bytes=4096))
        for i in range(3):
            append(log, batch_of(timestamp=NOW + i))
        file = disk.names[log.active.path(".log")]
        assert file is not None
        file.data[damaged if damaged < 0 else len(file.data) * 2 // 3 + damaged] ^= 0xFF
        with pytest.raises(StorageError, match="is damaged"):
            ask(log)
        assert log.offset_for_timestamp(NOW + 1) == (NOW + 1, 1, 0)

    @pytest.mark.parametrize("ask", [lambda log: log.offset_for_timestamp(NOW), PartitionLog.max_timestamp])
    def test_records_that_cannot_be_decoded(self, ask: Ask) -> None:
        log = open_log(SimulatedDisk())
        batch = batch_of()
        batch[HEADER_SIZE] ^= 1
        batch[CRC_POSITION:ATTRIBUTES_POSITION] = compute_crc(memoryview(batch)).to_bytes(4, "big")
        append(log, batch)
        with pytest.raises(StorageError, match="is damaged"):
            ask(log)

    def test_after_a_clean_restart(self) -> None:
        disk = SimulatedDisk()
        log = open_log(disk)
        for i in range(30):
            append(log, batch_of(timestamp=NOW + i))
        log.close()
        log = open_log(disk, clean=True, recovery_point=30)
        assert log.offset_for_timestamp(NOW + 17) == (NOW + 17, 17, 0)
        assert log.max_timestamp() == (NOW + 29, 29, 0)


# -- aborted transactions ------------------------------------------------------------------------------------


def abort(log: PartitionLog, producer_id: int, sequence: int) -> None:
    append(log, batch_of(producer_id=producer_id, epoch=0, sequence=sequence, transactional=True))
    mark(log, producer_id, commit=False)


def mark(log: PartitionLog, producer_id: int, *, commit: bool) -> None:
    log.append_marker(
        producer_id=producer_id, producer_epoch=0, commit=commit, coordinator_epoch=0, leader_epoch=0, now_ms=NOW
    )


def test_segments_without_aborts_are_not_looked_at() -> None:
    """A reader at the beginning of a long log would otherwise look at all segments behind it."""
    disk = CountingDisk()
    log = open_log(disk)
    abort(log, 1, 0)
    fill(log, [1] * 40)
    abort(log, 1, 1)
    fill(log, [1] * 40)
    end_offset = log.end_offset
    log.close()
    log = open_log(disk, clean=True, recovery_point=end_offset)
    assert len(log.segments.items) > 8
    assert [txn.first_offset for txn in log.aborted_transactions(0, end_offset)] == [0, 42]
    assert len(list(log.segments.with_aborted(0))) == 2
    assert not list(log.segments.with_aborted(end_offset - 1))
    log.delete_segments_before(log.active.base_offset, now_ms=NOW)
    assert not list(log.segments.with_aborted(0))


def test_a_read_of_committed_records_ends_before_it_has_too_many_aborts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_reader, "ABORTED_MAX", 10)
    monkeypatch.setattr(txn_index, "BLOCK_ENTRIES", 4)
    log = open_log(SimulatedDisk(), config=CONFIG.replace(segment_bytes=100_000))
    for producer_id in (7, 8):
        append(log, batch_of(producer_id=producer_id, epoch=0, sequence=0, transactional=True))
    for i in range(200):
        abort(log, 1, i)
    mark(log, 7, commit=False)
    mark(log, 8, commit=True)
    log.update_high_watermark(log.end_offset)
    offset, reads, listed = 0, 0, set()
    while offset < log.end_offset:
        found, aborted = log.locate_committed(offset, size_bytes_max=100_000, end_offset=log.end_offset)
        assert aborted == log.aborted_transactions(offset, found.next_offset)
        assert 0 < len(aborted) <= 10 + 2 * 4 + 1
        listed |= {txn.first_offset for txn in aborted}
        offset = found.next_offset
        reads += 1
    assert reads >= 200 // 19
    assert listed == {0, *range(2, 402, 2)}
