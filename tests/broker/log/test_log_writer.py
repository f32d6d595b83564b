from __future__ import annotations

import errno
import struct
from contextlib import suppress

import pytest
from log_helpers import CONFIG, NOW, append, batch_of, open_log, read_all
from simulated_disk import SimulatedDisk

from oncelog.broker.log.disk import StorageError
from oncelog.broker.log.producer_state import AppendOrigin
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.records.batch import TimestampType, compute_crc, read_header
from oncelog.protocol.records.record import iter_records


def refused(call, *args, **kwargs) -> ErrorCode:  # type: ignore[no-untyped-def]
    with pytest.raises(KafkaError) as raised:
        call(*args, **kwargs)
    return raised.value.code


def test_offsets_and_epoch_are_patched_in_place() -> None:
    log = open_log(SimulatedDisk())
    first, second = batch_of(3), batch_of(2)
    assert append(log, first, leader_epoch=4)[:2] == (0, 2)
    result = append(log, second, leader_epoch=4)
    assert result == (3, 4, -1, 0, False, len(second))
    assert read_header(second).base_offset == 3
    assert read_header(second).leader_epoch == 4
    assert read_all(log) == [bytes(first), bytes(second)]
    assert log.epochs.entries() == [(4, 0)]


def test_an_epoch_that_is_known_is_not_written_again() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    append(log, batch_of(5), leader_epoch=4)
    log.close()
    log = open_log(disk, clean=True, recovery_point=5)
    call_count = len(disk.calls)
    log.assign_epoch(4, log.end_offset)
    assert len(disk.calls) == call_count
    disk.fail("create", errno.ENOSPC)
    assert refused(log.assign_epoch, 5, log.end_offset) == ErrorCode.KAFKA_STORAGE_ERROR
    log.assign_epoch(5, log.end_offset)
    log.flush()
    assert open_log(disk.after_kill(), recovery_point=5).epochs.entries() == [(4, 0)], "nobody wrote in the other"
    append(log, batch_of(), leader_epoch=5)
    log.flush()
    assert open_log(disk.after_kill(), recovery_point=5).epochs.entries() == [(4, 0), (5, 5)]


def test_a_memoryview_of_a_larger_buffer_is_enough() -> None:
    log = open_log(SimulatedDisk())
    batch = batch_of(2)
    frame = bytearray(b"head" + batch + b"tail")
    view = memoryview(frame)[4:-4]
    log.append(view, read_header(view), leader_epoch=0, now_ms=NOW)
    assert read_all(log) == [bytes(view)]


def test_sizes() -> None:
    log = open_log(SimulatedDisk(), config=CONFIG.replace(max_message_bytes=500))
    assert refused(append, log, batch_of(1, value=b"x" * 500)) == ErrorCode.MESSAGE_TOO_LARGE
    log.config = CONFIG.replace(segment_bytes=400)
    assert refused(append, log, batch_of(1, value=b"x" * 400)) == ErrorCode.RECORD_LIST_TOO_LARGE
    assert log.end_offset == 0


def test_timestamps() -> None:
    config = CONFIG.replace(message_timestamp_after_max_ms=1000, message_timestamp_before_max_ms=5000)
    log = open_log(SimulatedDisk(), config=config)
    append(log, batch_of(timestamp=NOW + 1000))
    append(log, batch_of(timestamp=NOW - 5000))
    append(log, batch_of(timestamp=-1))
    assert refused(append, log, batch_of(timestamp=NOW + 1001)) == ErrorCode.INVALID_TIMESTAMP
    assert refused(append, log, batch_of(timestamp=NOW - 5001)) == ErrorCode.INVALID_TIMESTAMP
    append(log, batch_of(timestamp=NOW - 9999), origin=AppendOrigin.COORDINATOR)
    assert log.end_offset == 4


def test_log_append_time() -> None:
    log = open_log(SimulatedDisk(), config=CONFIG.replace(message_timestamp_type=TimestampType.LOG_APPEND_TIME))
    batch = batch_of(2, timestamp=5, producer_id=1, epoch=0, sequence=0)
    again = bytearray(batch)
    assert append(log, batch, now_ms=777).log_append_time == 777
    (stored,) = read_all(log)
    assert compute_crc(memoryview(stored)) == read_header(stored).crc
    assert [record.timestamp for record in iter_records(stored)] == [777, 777]
    duplicate = append(log, again, now_ms=999)
    assert (duplicate.duplicate, duplicate.log_append_time) == (True, 777)


def test_duplicates_append_nothing() -> None:
    log = open_log(SimulatedDisk())
    batches = [batch_of(2, producer_id=9, epoch=0, sequence=2 * i) for i in range(5)]
    copies = [bytearray(batch) for batch in batches]
    offsets = [append(log, batch).first_offset for batch in batches]
    size = log.size_bytes
    for copy, offset in zip(copies, offsets, strict=True):
        result = append(log, copy)
        assert result == (offset, offset + 1, -1, 0, True, 0)
    assert log.size_bytes == size
    gap = batch_of(producer_id=9, epoch=0, sequence=11)
    assert refused(append, log, gap) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.size_bytes == size


def test_rolling_by_size() -> None:
    log = open_log(SimulatedDisk())
    for _ in range(20):
        append(log, batch_of(2))
    sizes = [segment.size_bytes for segment in log.segments.items]
    assert len(sizes) > 3
    assert all(size <= CONFIG.segment_bytes for size in sizes)
    assert log.snapshot_offsets == log.segments.base_offsets[1:]


def test_rolling_by_the_records_time() -> None:
    log = open_log(SimulatedDisk(), config=CONFIG.replace(segment_ms=100))
    append(log, batch_of(timestamp=NOW))
    append(log, batch_of(timestamp=NOW + 100))
    assert len(log.segments.items) == 1
    append(log, batch_of(timestamp=NOW + 101))
    assert log.segments.base_offsets == [0, 2]
    # Without timestamps the age of the file counts.
    append(log, batch_of(timestamp=-1), now_ms=NOW + 101)
    log.roll(now_ms=NOW)
    append(log, batch_of(timestamp=-1), now_ms=NOW + 100)
    append(log, batch_of(timestamp=-1), now_ms=NOW + 101)
    assert log.segments.base_offsets == [0, 2, 4, 5]


def test_rolling_by_a_full_index() -> None:
    log = open_log(SimulatedDisk(), config=CONFIG.replace(segment_bytes=10**6, segment_index_bytes=40))
    for _ in range(20):
        append(log, batch_of(1, value=b"x" * 100))
    assert len(log.segments.items) > 3
    assert all(len(segment.offset_index) <= 5 for segment in log.segments.items)


def test_rolling_by_the_relative_offset() -> None:
    log = open_log(SimulatedDisk())
    append(log, batch_of())
    far = batch_of()
    struct.pack_into(">q", far, 0, 2**31)
    log.append_replicated(far, now_ms=NOW)
    assert log.segments.base_offsets == [0, 2**31]
    assert log.end_offset == 2**31 + 1


def test_rolling_an_empty_log_does_nothing() -> None:
    log = open_log(SimulatedDisk())
    log.roll(now_ms=NOW)
    assert log.segments.base_offsets == [0]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_failed_write_is_undone_and_the_next_may_succeed(code: int) -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    first = batch_of(3, producer_id=1, epoch=0, sequence=0)
    append(log, first)
    disk.fail("pwrite", code)
    lost = batch_of(2, producer_id=1, epoch=0, sequence=3)
    assert refused(append, log, bytearray(lost)) == ErrorCode.KAFKA_STORAGE_ERROR
    assert log.end_offset == 3
    assert not log.is_offline
    # The client sends it again: not a duplicate, as nothing of it was kept.
    result = append(log, lost)
    assert (result.first_offset, result.duplicate) == (3, False)
    log.flush()
    again = open_log(disk.after_kill(), recovery_point=5)
    assert read_all(again) == [bytes(first), bytes(lost)]


def test_a_write_that_cannot_be_undone_ends_the_log() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    append(log, batch_of())
    disk.rng.seed(1)
    disk.fail("pwrite", errno.EIO)
    disk.fail("truncate", errno.EIO)
    assert refused(append, log, batch_of(5)) == ErrorCode.KAFKA_STORAGE_ERROR
    assert log.is_offline
    with pytest.raises(StorageError, match="offline"):
        append(log, batch_of())
    with pytest.raises(StorageError, match="offline"):
        log.read(0, size_bytes_max=1, end_offset=1)
    with pytest.raises(StorageError, match="offline"):
        log.begin_flush()


@pytest.mark.parametrize("kind", ["open .timeindex", "open .log", "pread"])
def test_a_batch_is_there_once_though_a_file_could_not_be_read_after_a_restart(kind: str) -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    for i in range(3):
        append(log, batch_of(2, timestamp=NOW + i))
    log.close()
    log = open_log(disk, clean=True, recovery_point=6)
    log.active.close_file()
    disk.fail(kind, errno.EIO)
    batch = batch_of(2, timestamp=NOW + 9, producer_id=1, epoch=0, sequence=0)
    with suppress(KafkaError):
        append(log, bytearray(batch))
    # Sent again, whether it was refused or not.
    append(log, batch)
    assert [read_header(batch).base_offset for batch in read_all(log)] == [0, 2, 4, 6]
    assert log.size_bytes == disk.file_sizes("/t-0")["00000000000000000000.log"]
    log.flush()
    assert read_all(open_log(disk.after_kill())) == read_all(log)


def test_a_file_that_cannot_be_opened_refuses_a_batch_and_no_more() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    append(log, batch_of())
    log.active.close_file()
    # Twice: there is nothing to undo, so it must not be opened for that.
    disk.fail("open .log", errno.EMFILE, errno.EMFILE)
    assert refused(append, log, batch_of()) == ErrorCode.KAFKA_STORAGE_ERROR
    assert refused(append, log, batch_of()) == ErrorCode.KAFKA_STORAGE_ERROR
    assert append(log, batch_of()).first_offset == 1


def test_a_first_batch_that_is_damaged_is_told_as_such() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    for _ in range(3):
        append(log, batch_of(2))
    log.close()
    log = open_log(disk, clean=True, recovery_point=6)
    file = disk.names["/t-0/00000000000000000000.log"]
    assert file is not None
    file.data[16] = 9
    with pytest.raises(StorageError, match="is damaged"):
        append(log, batch_of())


@pytest.mark.parametrize("kind", ["create", "pwrite"])
@pytest.mark.parametrize("nth", range(4))
def test_a_full_disk_while_rolling(kind: str, nth: int) -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    batches = []
    while log.size_bytes + 200 < CONFIG.segment_bytes:
        batches.append(batch_of(2, producer_id=1, epoch=0, sequence=2 * len(batches)))
        append(log, batches[-1])
    disk.fail(kind, *[0] * nth, errno.ENOSPC)
    for _ in range(8):
        batch = batch_of(2, producer_id=1, epoch=0, sequence=2 * len(batches))
        with suppress(KafkaError):
            append(log, bytearray(batch))
        # Sent again, whether it was refused or not.
        append(log, batch)
        batches.append(batch)
    assert not any(disk.failures.values()), "the failure was met"
    assert not log.is_offline
    assert [read_header(batch).base_sequence for batch in read_all(log)] == [2 * i for i in range(len(batches))]
    log.flush()
    again = open_log(disk.after_kill())
    assert again.end_offset == log.end_offset
    assert read_all(again) == read_all(log)


def test_markers_complete_transactions() -> None:
    log = open_log(SimulatedDisk())
    append(log, batch_of(2, producer_id=1, epoch=0, sequence=0, transactional=True))
    append(log, batch_of(1))
    log.update_high_watermark(log.end_offset)
    assert log.last_stable_offset == 0
    result = log.append_marker(
        producer_id=1, producer_epoch=0, commit=False, coordinator_epoch=3, leader_epoch=0, now_ms=NOW
    )
    assert result.first_offset == result.last_offset == 3
    assert log.last_stable_offset == 0, "the marker is above the high watermark"
    log.update_high_watermark(log.end_offset)
    assert log.last_stable_offset == 4
    assert log.aborted_transactions(0, 4) == [(1, 0, 3, 4)]
    code = refused(
        log.append_marker,
        producer_id=1,
        producer_epoch=0,
        commit=True,
        coordinator_epoch=2,
        leader_epoch=0,
        now_ms=NOW,
    )
    assert code == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert log.end_offset == 4


def test_an_abort_whose_index_cannot_be_read_is_refused_as_a_whole() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    abort = {"producer_id": 1, "producer_epoch": 0, "commit": False, "coordinator_epoch": 0, "leader_epoch": 0}
    append(log, batch_of(2, producer_id=1, epoch=0, sequence=0, transactional=True))
    log.append_marker(**abort, now_ms=NOW)
    log.close()
    log = open_log(disk, clean=True, recovery_point=3)
    append(log, batch_of(1, producer_id=1, epoch=0, sequence=2, transactional=True))
    disk.fail("open .txnindex", errno.EMFILE)
    assert refused(log.append_marker, **abort, now_ms=NOW) == ErrorCode.KAFKA_STORAGE_ERROR
    assert (log.end_offset, log.is_offline) == (4, False)
    # The coordinator tries again.
    log.append_marker(**abort, now_ms=NOW)
    log.update_high_watermark(log.end_offset)
    assert log.last_stable_offset == log.end_offset == 5
    assert log.aborted_transactions(0, 5) == [(1, 0, 2, 3), (1, 3, 4, 5)]


def test_verification_is_demanded_if_configured() -> None:
    log = open_log(SimulatedDisk(), config=CONFIG.replace(transaction_verification=True))
    batch = batch_of(producer_id=1, epoch=0, sequence=0, transactional=True)
    assert refused(append, log, bytearray(batch)) == ErrorCode.INVALID_TXN_STATE
    guard = log.begin_verification(1, 0, 0, supports_epoch_bump=False, now_ms=NOW)
    append(log, batch, guard=guard)
    append(log, batch_of(producer_id=1, epoch=0, sequence=1, transactional=True))
    assert log.has_ongoing_transaction(1, 0)
    assert not log.has_ongoing_transaction(1, 1)
