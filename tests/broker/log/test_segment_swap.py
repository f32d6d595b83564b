from __future__ import annotations

import pytest
from log_helpers import NOW, append, batch_of, open_log, read_all
from simulated_disk import SimulatedDisk

from oncelog.broker.log import segment_swap
from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.log.segment import Segment
from oncelog.broker.log.segment_swap import CleanedSegment
from oncelog.protocol.records.batch import iter_headers, read_header


def filled() -> tuple[SimulatedDisk, PartitionLog, list[bytes]]:
    disk = SimulatedDisk()
    log = open_log(disk)
    batches = []
    for _ in range(30):
        batch = batch_of(2)
        append(log, batch)
        batches.append(bytes(batch))
    log.checkpointed_recovery_point = log.flush()
    return disk, log, batches


def clean_first(log: PartitionLog, count: int, keep: int) -> None:
    log.replace_segments(*cleaned_first(log, count, keep), now_ms=NOW)


def cleaned_first(log: PartitionLog, count: int, keep: int) -> tuple[list[Segment], CleanedSegment]:
    """The first segments, and a new one with every `keep`-th batch of theirs."""
    old = log.closed_segments()[:count]
    cleaned = log.create_cleaned_segment(old[0].base_offset)
    for segment in old:
        data = log.disk.pread(segment.file(), segment.size_bytes, 0)
        for position, header in iter_headers(data):
            if header.base_offset % (2 * keep) == 0:
                batch = data[position : position + header.size_bytes]
                cleaned.append(batch, header.last_offset, header.max_timestamp)
    cleaned.finish()
    return old, cleaned


def test_replacing_keeps_the_rest_readable() -> None:
    disk, log, batches = filled()
    first_kept = log.segments.base_offsets[3]
    expected = [
        batch
        for batch in batches
        if read_header(batch).base_offset % 6 == 0 or read_header(batch).base_offset >= first_kept
    ]
    clean_first(log, 3, 3)
    assert read_all(log) == expected
    # An offset that is gone leads to the next one that is there.
    assert log.read(1, size_bytes_max=1, end_offset=60).records == batches[0]
    assert log.read(2, size_bytes_max=1, end_offset=60).records == batches[3]
    assert [name for name in disk.names if name.endswith(".deleted")]
    log.maybe_remove_files(NOW)
    assert not [name for name in disk.names if name.endswith((".deleted", ".swap", ".cleaned"))]
    log.close()
    log = open_log(disk, clean=True, recovery_point=60)
    assert read_all(log) == expected


def test_everything_may_be_cleaned_away() -> None:
    _, log, batches = filled()
    first_kept = log.segments.base_offsets[2]
    old = log.closed_segments()[:2]
    cleaned = log.create_cleaned_segment(old[0].base_offset)
    cleaned.finish()
    log.replace_segments(old, cleaned, now_ms=NOW)
    assert read_all(log) == [b for b in batches if read_header(b).base_offset >= first_kept]
    assert log.log_start_offset == 0


def test_what_is_not_durable_cannot_be_replaced() -> None:
    _, log, _ = filled()
    log.checkpointed_recovery_point = 3
    with pytest.raises(AssertionError, match="not durable"):
        clean_first(log, 2, 2)


def test_a_discarded_segment_leaves_nothing() -> None:
    disk, log, batches = filled()
    cleaned = log.create_cleaned_segment(0)
    cleaned.append(batches[0], 1, NOW)
    cleaned.discard()
    assert not [name for name in disk.names if name.endswith(".cleaned")]
    assert read_all(log) == batches


def test_snapshots_of_merged_segments_go() -> None:
    disk, log, _ = filled()
    bases = list(log.segments.base_offsets)
    assert log.snapshot_offsets == bases[1:]
    clean_first(log, 3, 3)
    assert log.snapshot_offsets == bases[3:]
    assert sorted(name for name in disk.names if name.endswith(".snapshot")) == [
        log.snapshot_path(offset) for offset in bases[3:]
    ]


def test_the_exchange_leaves_syncs_to_the_caller_and_the_log_readable(monkeypatch: pytest.MonkeyPatch) -> None:
    disk, log, batches = filled()
    old, cleaned = cleaned_first(log, 3, 3)
    # A directory may have very many files.
    monkeypatch.setattr(disk, "file_sizes", None)
    disk.calls.clear()
    for step in segment_swap.replace(log, old, cleaned, NOW):
        assert not {"fdatasync", "fsync_dir"} & set(disk.calls)
        for segment in old:
            segment.close_file()
        assert read_all(log) == batches, "the old segments are there until the new one is"
        append(log, batch := batch_of(2))
        batches.append(bytes(batch))
        assert step is not None
        step()
        disk.calls.clear()
    assert len(log.segments.items) < len(batches)
    assert log.segments.items[0].size_bytes == cleaned.size_bytes
    found = [read_header(batch).base_offset for batch in read_all(log)]
    assert found[:2] == [0, 6]
    assert log.size_bytes == sum(segment.size_bytes for segment in log.segments.items)
