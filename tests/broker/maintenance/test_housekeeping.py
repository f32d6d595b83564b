"""The background work of a broker, with time in the test's hands and real files."""

from __future__ import annotations

import asyncio
import logging
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from housekeeping_world import MINUTE_MS, START_MS, TOPIC_ID, ManualClock, World

from oncelog.broker.base.clock import Clock
from oncelog.broker.base.worker import Worker
from oncelog.broker.log import large_snapshots, pending_deletes, steps
from oncelog.broker.log.segment import Segment
from oncelog.broker.log.steps import Steps
from oncelog.broker.maintenance import housekeeping, slices
from oncelog.protocol.records.batch import build_batch, read_header
from oncelog.protocol.records.record import Record


def messages_of(caplog: pytest.LogCaptureFixture, *modules: str) -> list[str]:
    """Brokers that other tests share may have something to say as well."""
    return [entry.getMessage() for entry in caplog.records if entry.name.rpartition(".")[2] in modules]


async def test_nothing_happens_before_its_time(world: World) -> None:
    log = world.write(count=3)
    await world.flusher.drain()
    world.start()
    await world.run_for(29_999)
    assert "t 0 3" not in world.checkpoint("recovery-point-offset-checkpoint")
    await world.run_for(1)
    assert "t 0 3" in world.checkpoint("recovery-point-offset-checkpoint")
    assert log.checkpointed_recovery_point == 3
    world.write(count=1)
    await world.flusher.drain()
    await world.run_for(MINUTE_MS - 1)
    assert "t 0 4" not in world.checkpoint("recovery-point-offset-checkpoint")
    await world.run_for(1)
    assert "t 0 4" in world.checkpoint("recovery-point-offset-checkpoint")


async def test_checkpoints_and_removals_do_not_block_the_event_loop(world: World) -> None:
    world.config = world.config.replace(retention_bytes=0)
    log = world.write(count=30)
    await world.flusher.drain()
    log.roll(now_ms=START_MS)
    world.disk.threads.clear()
    await world.housekeeping.retain()
    assert log.log_start_offset == 30
    world.clock.time_ms += MINUTE_MS
    await world.housekeeping.checkpoint()
    await world.housekeeping.remove_files()
    assert world.disk.threads.keys() == {"sync", "unlink"}
    assert all(threading.get_ident() not in threads for threads in world.disk.threads.values())


async def test_expired_segments_go_and_their_files_after_the_delay(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="oncelog")
    world.config = world.config.replace(retention_ms=3 * MINUTE_MS)
    log = world.write(count=20)
    await world.flusher.drain()
    assert len(log.segments.items) > 2
    world.start()
    await world.run_for(30_000 + 5 * MINUTE_MS - 1)
    assert log.log_start_offset == 0
    await world.run_for(1)
    assert log.log_start_offset == 20
    doomed = [name for name in world.names() if name.endswith(".deleted")]
    assert len(doomed) > 2
    await world.run_for(MINUTE_MS - 1)
    assert [name for name in world.names() if name.endswith(".deleted")] == doomed
    await world.run_for(MINUTE_MS)
    assert [name for name in world.names() if name.endswith((".deleted", ".log"))] == ["00000000000000000020.log"]
    deleted, removed = messages_of(caplog, "log_cleaning", "housekeeping")
    assert deleted.startswith("t-0: retention deletes ")
    assert deleted.endswith("it starts at offset 20 now")
    assert removed.startswith("removed the files of ")


async def test_the_files_of_many_segments_are_not_all_closed_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housekeeping, "SEGMENTS_REMOVED_AT_ONCE", 4)
    world.config = world.config.replace(retention_bytes=0, file_delete_delay_ms=0)
    world.write(count=150)
    await world.flusher.drain()
    await world.housekeeping.retain()
    taken: list[int] = []
    retire = pending_deletes.retire

    def counted(segments: list[Segment]) -> list[str]:
        taken.append(len(segments))
        return retire(segments)

    monkeypatch.setattr(pending_deletes, "retire", counted)
    await world.housekeeping.remove_files()
    assert sum(taken) > 10
    assert max(taken) == 4
    assert not [name for name in world.names() if name.endswith(".deleted")]


async def test_directories_of_deleted_partitions_go_after_the_delay(world: World) -> None:
    world.write(count=2)
    await world.flusher.drain()
    world.logs.delete("t", 0, token="abc", now_ms=world.clock.time_ms)
    world.start()
    await world.run_for(MINUTE_MS - 1)
    assert (world.root / "t-0.abc-delete").exists()
    await world.run_for(MINUTE_MS)
    assert not (world.root / "t-0.abc-delete").exists()


async def test_a_partition_is_deleted_while_it_is_flushed(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    begun, gate = threading.Event(), threading.Event()

    def sync(fd: int) -> None:
        begun.set()
        gate.wait()

    monkeypatch.setattr(world.disk, "fdatasync", sync)
    world.write()
    while not begun.is_set():
        await asyncio.sleep(0.001)
    world.partitions.opened.pop(("t", 0)).close()
    world.logs.delete("t", 0, token="abc", now_ms=world.clock.time_ms)
    gate.set()
    await world.flusher.drain()
    assert messages_of(caplog, "flusher") == []


async def test_snapshots_of_very_many_producers_are_written_in_the_background(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(large_snapshots, "ENTRIES_MIN", 3)
    partition = world.partitions.leader("t", 0)
    for producer_id in range(5):
        batch = build_batch(
            [Record(0, START_MS, b"k", b"v")], producer_id=producer_id, producer_epoch=0, base_sequence=0
        )
        partition.append(memoryview(batch), read_header(batch), world.clock.time_ms)
    await world.flusher.drain()
    partition.log.roll(now_ms=START_MS)
    await world.flusher.drain()
    assert not [name for name in world.names() if name.endswith(".snapshot")]
    world.disk.threads.clear()
    await world.housekeeping.write_snapshots()
    assert "00000000000000000005.snapshot" in world.names()
    assert threading.get_ident() not in world.disk.threads["sync"]
    world.write()
    partition.log.roll(now_ms=START_MS)
    with monkeypatch.context() as patch, caplog.at_level(logging.ERROR):
        patch.setattr(world.disk, "pwrite_all", _no_space)
        await world.housekeeping.write_snapshots()
    assert messages_of(caplog, "housekeeping") == [
        "the producer snapshot of t-0 was not written: [Errno 28] No space left on device"
    ]


def _no_space(*_: object) -> None:
    raise OSError(28, "No space left on device")


class TestAShortDelay:
    """Files go when `file.delete.delay.ms` is over, not at the next look of a minute."""

    async def test_of_a_deleted_partition(self, world: World) -> None:
        world.config = world.config.replace(file_delete_delay_ms=5000)
        for index in range(2):
            world.write(index=index)
        await world.flusher.drain()
        world.start()
        await world.run_for(MINUTE_MS)
        world.logs.delete("t", 0, token="abc", now_ms=world.clock.time_ms)
        await world.asleep_until(world.clock.time_ms + 5000)
        world.clock.time_ms += 1000
        world.logs.delete("t", 1, token="abc", now_ms=world.clock.time_ms)
        await world.run_for(3999)
        assert (world.root / "t-0.abc-delete").exists()
        await world.run_for(1)
        assert not (world.root / "t-0.abc-delete").exists()
        await world.run_for(999)
        assert (world.root / "t-1.abc-delete").exists()
        await world.run_for(1)
        assert not (world.root / "t-1.abc-delete").exists()

    async def test_of_no_time(self, world: World) -> None:
        world.config = world.config.replace(file_delete_delay_ms=0)
        for index in range(3):
            world.write(index=index)
        await world.flusher.drain()
        world.start()
        await world.run_for(MINUTE_MS)
        for index in range(3):
            world.logs.delete("t", index, token="abc", now_ms=world.clock.time_ms)
        while list(world.root.glob("t-*")):
            await asyncio.sleep(0.001)
        assert world.clock.time_ms == START_MS + MINUTE_MS

    async def test_of_expired_segments(self, world: World) -> None:
        world.config = world.config.replace(retention_bytes=0, file_delete_delay_ms=0)
        world.start()
        await world.run_for(MINUTE_MS)
        log = world.write(count=20)
        await world.flusher.drain()
        await world.run_for(5 * MINUTE_MS - 30_000)
        assert log.log_start_offset == 20
        while any(name.endswith(".deleted") for name in world.names()):
            await asyncio.sleep(0.001)


class TestPartitionsThatNobodyOpens:
    async def fill(self, world: World, count: int) -> None:
        for index in range(count):
            world.write(index=index, count=3)
            world.clock.time_ms += 1
        await world.flusher.drain()
        await world.restart()

    async def test_they_are_looked_at_once_and_opened_when_they_are_due(self, world: World) -> None:
        world.config = world.config.replace(retention_ms=20 * MINUTE_MS)
        await self.fill(world, 20)
        world.disk.threads.clear()
        world.start()
        await world.run_for(MINUTE_MS)
        assert world.disk.directories_read == 40, "to open it, and to look when it is due"
        assert threading.get_ident() not in world.disk.threads["list"], "a directory may have very many files"
        assert not world.logs.logs
        await world.run_for(15 * MINUTE_MS)
        assert world.disk.directories_read == 40
        await world.run_for(10 * MINUTE_MS)
        assert len(world.logs.logs) == 20
        assert {log.log_start_offset for log in world.logs.logs.values()} == {3}

    async def test_new_settings_are_noticed(self, world: World) -> None:
        await self.fill(world, 2)
        world.write("other", 0)
        await world.flusher.drain()
        await world.restart()
        world.start()
        await world.run_for(MINUTE_MS)
        world.config = world.config.replace(retention_ms=1000)
        old = SimpleNamespace(configs={})
        new = SimpleNamespace(configs={"retention.ms": "1000"})
        broker_configs: dict[str, Any] = {}
        world.listeners[-1](
            SimpleNamespace(broker_configs=broker_configs, topics={"t": old, "other": old}),
            SimpleNamespace(broker_configs=broker_configs, topics={"t": new, "other": old, "made": new}),
        )
        await world.run_for(5 * MINUTE_MS)
        assert world.logs.logs.keys() == {("t", 0), ("t", 1)}
        world.listeners[-1](
            SimpleNamespace(broker_configs={}, topics={}), SimpleNamespace(broker_configs={"": {}}, topics={})
        )
        await world.run_for(5 * MINUTE_MS)
        assert ("other", 0) in world.logs.logs

    async def test_one_that_belongs_to_nobody_does_not_disturb(
        self, world: World, caplog: pytest.LogCaptureFixture
    ) -> None:
        world.config = world.config.replace(retention_ms=1000)
        world.logs.create("stray", 0, TOPIC_ID, now_ms=START_MS).append(
            batch := build_batch([Record(0, START_MS, b"k", b"v")]),
            read_header(batch),
            leader_epoch=0,
            now_ms=START_MS,
        )
        await self.fill(world, 1)
        world.start()
        with caplog.at_level(logging.ERROR):
            await world.run_for(12 * MINUTE_MS)
        assert world.logs.logs.keys() == {("t", 0)}
        assert not caplog.records


async def test_long_work_is_done_in_slices() -> None:
    clock = ManualClock()
    done: list[int] = []

    def work() -> Steps[str]:
        for i in range(10):
            done.append(i)
            clock.time_ms += 1
            yield None
        return "done"

    task = asyncio.create_task(slices.run_steps(clock, Worker("test", 1), work()))
    await clock.run_for(0, 1)
    assert len(done) == 3, "a slice ends once it took more than two milliseconds"
    await clock.run_for(20, 1)
    assert len(done) == 6
    await clock.run_for(20, 1)
    await clock.run_for(20, 0)
    assert await task == "done"
    assert len(done) == 10


async def test_work_that_waits_for_the_disk_does_so_in_a_thread_and_hears_of_failures() -> None:
    threads: list[int] = []
    worker = Worker("test", 1)

    def fail() -> None:
        raise OSError("full")

    def work() -> Steps[str]:
        yield lambda: threads.append(threading.get_ident())
        try:
            yield fail
        except OSError as error:
            return str(error)
        return ""

    assert await slices.run_steps(Clock(), worker, work()) == "full"
    assert threading.get_ident() not in threads
    assert steps.run(work()) == "full"
    assert threading.get_ident() in threads
    worker.close()


async def test_idle_producers_expire(world: World) -> None:
    world.config = world.config.replace(producer_id_expiration_ms=15 * MINUTE_MS)
    partition = world.partitions.leader("t", 0)
    batch = build_batch([Record(0, START_MS, b"k", b"v")], producer_id=5, producer_epoch=0, base_sequence=0)
    partition.append(memoryview(batch), read_header(batch), world.clock.time_ms)
    await world.flusher.drain()
    world.start()
    await world.run_for(15 * MINUTE_MS)
    assert 5 in partition.log.producers.entries
    await world.run_for(10 * MINUTE_MS)
    assert not partition.log.producers.entries


class TestFlushing:
    async def test_by_time(self, lazy_world: World) -> None:
        world = lazy_world
        world.config = world.config.replace(flush_ms=5000)
        log = world.write(count=2)
        assert (log.high_watermark, log.recovery_point) == (2, 0)
        log.flush()
        world.write(count=1)
        world.start()
        await world.run_for(34_999)
        assert log.recovery_point == 2
        await world.run_for(1)
        await world.flusher.drain()
        assert log.recovery_point == 3

    async def test_by_count(self, lazy_world: World) -> None:
        world = lazy_world
        world.config = world.config.replace(flush_messages=3)
        log = world.write(count=2)
        await world.flusher.drain()
        assert log.recovery_point == 0
        world.write()
        await world.flusher.drain()
        assert log.recovery_point == 3

    async def test_not_of_partitions_that_nobody_writes_to(self, world: World) -> None:
        logs = [world.partitions.leader("t", index).log for index in range(40)]
        world.start()
        await world.run_for(10 * MINUTE_MS)
        await world.flusher.drain()
        assert all(log.dirty_paths for log in logs)
        world.write(index=7)
        await world.flusher.drain()
        assert [index for index, log in enumerate(logs) if not log.dirty_paths] == [7]

    async def test_closed_segments_always(self, lazy_world: World) -> None:
        log = lazy_world.write(count=20)
        assert len(log.segments.items) > 1
        idle = lazy_world.write("idle")
        lazy_world.start()
        await lazy_world.run_for(MINUTE_MS)
        await lazy_world.flusher.drain()
        assert log.recovery_point == 20
        assert idle.recovery_point == 1, "its first batch came with the leader epoch's file"
        lazy_world.write("idle")
        await lazy_world.run_for(10 * MINUTE_MS)
        await lazy_world.flusher.drain()
        assert idle.recovery_point == 1, "its segment is still open"

    async def test_first_records_so_that_their_file_can_be_closed(self, lazy_world: World) -> None:
        lazy_world.logs.files.files_max = 2
        logs = [lazy_world.write(index=index) for index in range(10)]
        assert len(lazy_world.logs.files) == 10, "what is not synced stays open"
        lazy_world.start()
        await lazy_world.run_for(MINUTE_MS)
        await lazy_world.flusher.drain()
        assert [log.recovery_point for log in logs] == [1] * 10
        assert not any(log.active.dirty or log.dirty_paths for log in logs)
