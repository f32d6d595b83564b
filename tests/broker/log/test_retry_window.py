from __future__ import annotations

import errno

import pytest
from log_helpers import NOW, append, batch_of, open_log
from simulated_disk import SimulatedDisk

from oncelog.broker.log.disk import StorageError
from oncelog.protocol.errors import ErrorCode, KafkaError


@pytest.mark.parametrize("others", [0, 1, 6])
@pytest.mark.parametrize("clean", [True, False])
def test_the_last_five_batches_survive_a_restart(clean: bool, others: int) -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    sent = []
    for i in range(8):
        batch = batch_of(2, producer_id=1, epoch=0, sequence=2 * i)
        sent.append((bytearray(batch), append(log, batch).first_offset))
        for _ in range(others):
            append(log, batch_of(2))
    log.flush()
    log.close(clean=clean)
    log = open_log(disk.after_kill(), clean=clean)
    end = log.end_offset
    for batch, offset in sent[3:]:
        result = append(log, bytearray(batch))
        assert (result.duplicate, result.first_offset) == (True, offset)
    with pytest.raises(KafkaError) as raised:
        append(log, sent[0][0])
    assert raised.value.code in (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    assert log.end_offset == end
    assert append(log, batch_of(producer_id=1, epoch=0, sequence=16)).first_offset == end


def test_a_retry_that_cannot_be_looked_up_may_be_sent_again() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    sent = [batch_of(2, producer_id=1, epoch=0, sequence=2 * i) for i in range(3)]
    for batch in sent:
        append(log, bytearray(batch))
    log.close()
    log = open_log(disk, clean=True, recovery_point=6)
    disk.fail("pread", errno.EIO)
    with pytest.raises(KafkaError) as raised:
        append(log, bytearray(sent[0]))
    assert raised.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert append(log, sent[0]).duplicate
    assert log.end_offset == 6


def test_a_retry_that_is_looked_up_among_damaged_batches() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    sent = [batch_of(2, producer_id=1, epoch=0, sequence=2 * i) for i in range(3)]
    for batch in sent:
        append(log, bytearray(batch))
    log.close()
    log = open_log(disk, clean=True, recovery_point=6)
    file = disk.names["/t-0/00000000000000000000.log"]
    assert file is not None
    file.data[16] = 9
    with pytest.raises(StorageError, match="is damaged"):
        append(log, sent[0])


@pytest.mark.parametrize("clean", [None, True, False], ids=["running", "restarted", "killed"])
def test_sequences_go_on_after_the_records_were_deleted(clean: bool | None) -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    append(log, batch_of(2, producer_id=1, epoch=0, sequence=0))
    for _ in range(20):
        append(log, batch_of(2))
    log.flush()
    log.update_high_watermark(log.end_offset)
    log.delete_segments_before(log.active.base_offset, now_ms=NOW)
    log.maybe_remove_files(NOW)
    assert log.log_start_offset > 2
    if clean is not None:
        log.close(clean=clean)
        log = open_log(disk.after_kill(), clean=clean)
    with pytest.raises(KafkaError) as raised:
        append(log, batch_of(producer_id=1, epoch=0, sequence=3))
    assert raised.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    end = log.end_offset
    assert append(log, batch_of(producer_id=1, epoch=0, sequence=2)).first_offset == end
