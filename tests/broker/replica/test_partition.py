"""The high watermark and who is told of its moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from oncelog.broker.log.disk import Disk, StorageError
from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.replica.flusher import Flusher
from oncelog.broker.replica.partition import Partition
from oncelog.broker.replica.sync_latency import DiskPace
from oncelog.broker.replica.waiters import FetchWaiter
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.records.batch import build_batch, read_header
from oncelog.protocol.records.record import Record

NOW_MS = 1_000_000
WAIT_MS = 600_000
TOPIC_ID = bytes([1] * 16)


def open_log(directory: Path, topic: str) -> PartitionLog:
    return PartitionLog.open(
        str(directory / f"{topic}-0"),
        LogConfig(),
        Disk(),
        topic=topic,
        partition=0,
        topic_id=TOPIC_ID,
        clean=True,
        now_ms=NOW_MS,
    )


def lead(partition: Partition) -> Partition:
    partition.become_leader(0, in_sync_count=1)
    return partition


@pytest.fixture
async def partition(tmp_path: Path) -> AsyncIterator[Partition]:
    """Whose log the tests flush themselves: the flusher does not get a turn before they end."""
    log = open_log(tmp_path, "t")
    flusher = Flusher()
    yield lead(Partition("t", TOPIC_ID, 0, log, flusher, True))
    await flusher.drain()
    flusher.close()
    log.close()


def append(partition: Partition) -> int:
    """The size of the batch."""
    batch = build_batch([Record(0, NOW_MS, None, bytes(100))])
    return partition.append(memoryview(batch), read_header(batch), NOW_MS).size_bytes


def flush(partition: Partition) -> None:
    partition.log.flush()
    partition.flushed()


def when_committed(partition: Partition, offset: int, listener: Callable[[object], object]) -> None:
    committed = partition.committed(offset, alone=False)
    assert committed is not None
    committed.then(listener)


async def test_a_listener_that_raises_leaves_the_partition_online(partition: Partition) -> None:
    called: list[object] = []

    def bug(_: object) -> None:
        raise ValueError("a bug")

    append(partition)
    when_committed(partition, 1, bug)
    when_committed(partition, 1, called.append)
    flush(partition)
    assert not called, "in the midst of what the caller does"
    await asyncio.sleep(0)
    assert len(called) == 1
    append(partition)


async def test_a_long_poll_hears_of_what_was_appended_during_an_earlier_sync(partition: Partition) -> None:
    size_bytes = append(partition)
    ticket = partition.log.begin_flush()
    assert ticket is not None
    early = FetchWaiter([partition], size_bytes + 1, WAIT_MS)
    append(partition)
    ticket.run()
    partition.log.complete_flush(ticket)
    partition.flushed()
    assert partition.log.high_watermark == 1
    assert not early.future.done(), "what is not safe does not count"
    late = FetchWaiter([partition], size_bytes, WAIT_MS)
    flush(partition)
    assert early.future.done()
    assert late.future.done()


async def test_a_long_poll_does_not_count_what_it_could_read_before(partition: Partition) -> None:
    for _ in range(3):
        size_bytes = append(partition)
    flush(partition)
    waiter = FetchWaiter([partition], size_bytes + 1, WAIT_MS)
    append(partition)
    flush(partition)
    assert not waiter.future.done()
    append(partition)
    flush(partition)
    assert waiter.future.done()


class AlwaysOnLoop(DiskPace):
    @property
    def is_fast(self) -> bool:
        return True

    def allows_loop(self) -> bool:
        return True


async def test_who_is_told_of_a_sync_may_close_the_segment_of_the_next_log(tmp_path: Path) -> None:
    """As a decision of a coordinator may, whose marker goes into the partition that is synced with it."""
    flusher = Flusher(AlwaysOnLoop(), AlwaysOnLoop())
    first, second = (
        lead(Partition(name, TOPIC_ID, 0, open_log(tmp_path, name), flusher, True)) for name in ("first", "second")
    )
    for partition in (first, second):
        append(partition)
    await flusher.drain()

    def go_on(_: object) -> None:
        append(second)
        second.log.roll(now_ms=NOW_MS)
        append(second)

    flushed_offsets: list[int] = []
    append(first)
    append(second)
    when_committed(first, 2, go_on)
    when_committed(second, 2, lambda _: flushed_offsets.append(second.log.flushed_offset))
    while not flushed_offsets:
        await asyncio.sleep(0)
    assert flushed_offsets == [2], "what was appended after the sync is not safe"
    await flusher.drain()
    assert second.log.flushed_offset == 4
    flusher.close()
    for partition in (first, second):
        partition.log.close()


async def test_nobody_else_is_called_back_by_who_syncs_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oncelog.broker.replica.flusher.SLEPT_SECONDS", -1e9)
    flusher = Flusher(AlwaysOnLoop(), AlwaysOnLoop())
    partition = lead(Partition("t", TOPIC_ID, 0, open_log(tmp_path, "t"), flusher, True))
    append(partition)
    await flusher.drain()
    append(partition)
    assert partition.committed(2) is None
    assert partition.log.high_watermark == 2
    called: list[object] = []
    append(partition)
    when_committed(partition, 3, called.append)
    append(partition)
    partition.committed(4)
    assert not called
    await flusher.drain()
    await asyncio.sleep(0)
    assert len(called) == 1
    flusher.close()
    partition.log.close()


async def test_who_waits_for_an_offline_partition_is_told_soon(partition: Partition) -> None:
    append(partition)
    partition.go_offline(StorageError("the disk is gone"))
    committed = partition.committed(1)
    assert committed is not None
    assert not committed.done(), "in the midst of what the caller does"
    with pytest.raises(KafkaError) as refused:
        await committed
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_deposed_leader_takes_no_writes_and_sends_those_who_wait_away(partition: Partition) -> None:
    append(partition)
    committed = partition.committed(1, alone=False)
    long_poll = FetchWaiter([partition], 1_000_000, WAIT_MS)
    assert committed is not None
    partition.become_follower(1, leader=7)
    with pytest.raises(KafkaError, match="broker 7 leads t-0") as refused:
        await committed
    assert refused.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert long_poll.future.done()
    with pytest.raises(KafkaError, match="broker 7 leads t-0"):
        append(partition)
    assert partition.log.end_offset == 1


async def test_a_leader_that_is_elected_again_writes_with_its_new_epoch(partition: Partition) -> None:
    append(partition)
    flush(partition)
    partition.become_follower(1, leader=7)
    partition.become_leader(2, in_sync_count=1)
    append(partition)
    assert [partition.epoch_of(offset) for offset in (0, 1)] == [0, 2]
    flush(partition)
    assert partition.log.high_watermark == 2


async def test_an_offline_partition_is_not_elected(partition: Partition) -> None:
    partition.go_offline(StorageError("the disk is gone"))
    partition.become_leader(1, in_sync_count=1)
    partition.become_follower(2, leader=7)
    with pytest.raises(KafkaError, match="the disk is gone"):
        append(partition)


async def test_a_leader_that_was_just_opened_may_read_all_that_is_on_disk(tmp_path: Path) -> None:
    flusher = Flusher()
    log = open_log(tmp_path, "t")
    batch = build_batch([Record(0, NOW_MS, None, b"value")])
    log.append(memoryview(batch), read_header(batch), leader_epoch=0, now_ms=NOW_MS)
    log.flush()
    partition = Partition("t", TOPIC_ID, 0, log, flusher, True)
    with pytest.raises(KafkaError):
        partition.check_leader()
    assert log.high_watermark == 0
    lead(partition)
    assert log.high_watermark == 1
    flusher.close()
    log.close()
