from __future__ import annotations

import errno

import pytest
from log_helpers import NOW, append, batch_of, open_log, read_all
from simulated_disk import SimulatedDisk

from oncelog.protocol.errors import ErrorCode, KafkaError, ProtocolError


def test_a_follower_becomes_equal() -> None:
    leader = open_log(SimulatedDisk())
    for i in range(30):
        append(leader, batch_of(2, producer_id=1, epoch=0, sequence=2 * i, transactional=True), leader_epoch=i // 10)
        if i % 7 == 6:
            leader.append_marker(
                producer_id=1, producer_epoch=0, commit=False, coordinator_epoch=0, leader_epoch=i // 10, now_ms=NOW
            )
    follower = open_log(SimulatedDisk())
    while follower.end_offset < leader.end_offset:
        result = leader.read(follower.end_offset, size_bytes_max=700, end_offset=leader.end_offset)
        # A fetch may end in the middle of a batch.
        appended = follower.append_replicated(result.records + b"\x00" * 30, now_ms=NOW)
        assert appended.size_bytes == len(result.records)
        assert appended.last_offset == follower.end_offset - 1
    assert read_all(follower) == read_all(leader)
    assert follower.producers.state() == leader.producers.state()
    assert follower.epochs.entries() == leader.epochs.entries()
    end = leader.end_offset
    assert follower.aborted_transactions(0, end) == leader.aborted_transactions(0, end) != []


def test_gaps_are_kept_and_overlaps_refused() -> None:
    log = open_log(SimulatedDisk())
    batch = batch_of(2)
    batch[:8] = (5).to_bytes(8, "big")
    log.append_replicated(batch, now_ms=NOW)
    assert log.end_offset == 7
    with pytest.raises(ProtocolError, match="5 where 7 is next"):
        log.append_replicated(batch, now_ms=NOW)
    assert log.read(0, size_bytes_max=1, end_offset=7).records == bytes(batch)


def test_damage_is_not_replicated() -> None:
    log = open_log(SimulatedDisk())
    good, bad = batch_of(2), batch_of(2)
    bad[:8] = (2).to_bytes(8, "big")
    bad[70] ^= 1
    with pytest.raises(KafkaError) as raised:
        log.append_replicated(good + bad, now_ms=NOW)
    assert raised.value.code == ErrorCode.CORRUPT_MESSAGE
    assert log.end_offset == 0


def test_an_abort_whose_index_cannot_be_read_is_refused_as_a_whole() -> None:
    leader = open_log(SimulatedDisk())
    for i in range(2):
        append(leader, batch_of(2, producer_id=1, epoch=0, sequence=2 * i, transactional=True))
        leader.append_marker(
            producer_id=1, producer_epoch=0, commit=False, coordinator_epoch=0, leader_epoch=0, now_ms=NOW
        )
    batches = read_all(leader)
    disk = SimulatedDisk()
    follower = open_log(disk)
    follower.append_replicated(b"".join(batches[:2]), now_ms=NOW)
    follower.close()
    follower = open_log(disk, clean=True, recovery_point=3)
    follower.append_replicated(batches[2], now_ms=NOW)
    disk.fail("open .txnindex", errno.EMFILE)
    with pytest.raises(KafkaError):
        follower.append_replicated(batches[3], now_ms=NOW)
    follower.append_replicated(batches[3], now_ms=NOW)
    assert read_all(follower) == batches
    assert not follower.producers.ongoing
    assert follower.aborted_transactions(0, 6) == leader.aborted_transactions(0, 6)
