"""The background work of a broker, with time in the test's hands and real files."""

from __future__ import annotations

import asyncio
import heapq
import logging
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio

from oncelog.broker.config.load import load_config
from oncelog.broker.log import LogConfig, LogManager, PartitionLog
from oncelog.broker.log.disk import Disk
from oncelog.broker.replica.partition import Partition
from oncelog.broker.runtime import log_cleaning, slices
from oncelog.broker.runtime.clock import Clock
from oncelog.broker.runtime.flusher import Flusher
from oncelog.broker.runtime.housekeeping import Housekeeping
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.records.batch import build_batch, read_header
from oncelog.protocol.records.record import Record, iter_records

TOPIC_ID = uuid.UUID(int=9)
START_MS = 1_000_000_000
MINUTE_MS = 60_000


class ManualClock(Clock):
    """Time that passes only in `run_for`, from one sleeper's date to the next."""

    def __init__(self) -> None:
        self.time_ms = START_MS
        self.sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = count()
        super().__init__()

    def now_ms(self) -> int:
        return self.time_ms

    def monotonic(self) -> float:
        return self.time_ms / 1000

    async def sleep(self, seconds: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self.sleepers, (self.time_ms + seconds * 1000, next(self._order), future))
        await future

    async def run_for(self, duration_ms: int, job_count: int) -> None:
        """Lets time pass; `job_count` jobs are asleep whenever everything that was due is done."""
        end_ms = self.time_ms + duration_ms
        while True:
            while len([s for s in self.sleepers if not s[2].done()]) < job_count:
                await asyncio.sleep(0.0005)
            if not self.sleepers or self.sleepers[0][0] > end_ms:
                break
            due_ms, _, future = heapq.heappop(self.sleepers)
            self.time_ms = max(self.time_ms, round(due_ms))
            if not future.done():
                future.set_result(None)
                await asyncio.sleep(0)
        self.time_ms = max(self.time_ms, end_ms)


class SpyDisk(Disk):
    """Counts calls and remembers the threads that sync and remove."""

    def __init__(self) -> None:
        self.threads: dict[str, set[int]] = {}
        self.directories_read = 0

    def fdatasync(self, fd: int) -> None:
        self.threads.setdefault("sync", set()).add(threading.get_ident())
        super().fdatasync(fd)

    def unlink(self, path: str) -> None:
        if path.endswith(".deleted"):
            self.threads.setdefault("unlink", set()).add(threading.get_ident())
        super().unlink(path)

    def file_sizes(self, path: str) -> dict[str, int]:
        self.directories_read += 1
        return super().file_sizes(path)


class Partitions:
    """As the replica manager, of a broker that leads everything."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.opened: dict[tuple[str, int], Partition] = {}

    def __iter__(self) -> Iterator[Partition]:
        return iter(list(self.opened.values()))

    def leader(self, topic: str, index: int) -> Partition:
        if topic == "stray":
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        key = (topic, index)
        if key not in self.opened:
            log = self.world.logs.create(topic, index, TOPIC_ID, now_ms=self.world.clock.time_ms)
            log.update_high_watermark(log.end_offset)
            self.opened[key] = Partition(
                topic, TOPIC_ID.bytes, index, log, 0, self.world.flusher, self.world.flush_on_ack
            )
        return self.opened[key]


class World:
    """A broker without its network: logs on disk, partitions, housekeeping."""

    def __init__(self, root: Path, *, flush_on_ack: bool = True, config: LogConfig | None = None) -> None:
        self.root = root
        self.flush_on_ack = flush_on_ack
        self.config = config or LogConfig(segment_bytes=1000, file_delete_delay_ms=MINUTE_MS)
        self.clock = ManualClock()
        self.disk = SpyDisk()
        self.flusher = Flusher()
        self.listeners: list[Callable[[Any, Any], None]] = []
        self.settings = {"log.flush.on.ack": str(flush_on_ack).lower()}
        self.open()

    def open(self) -> None:
        self.logs = LogManager.open(str(self.root), lambda topic: self.config, self.disk)
        list(self.logs.recover(self.clock.time_ms))
        self.partitions = Partitions(self)
        services: Any = SimpleNamespace(
            config=load_config(flags=[]),
            clock=self.clock,
            logs=self.logs,
            partitions=self.partitions,
            metadata=SimpleNamespace(subscribe=self.listeners.append),
        )
        services.config = load_config(options=[f"{name}={value}" for name, value in self.settings.items()])
        self.services = services
        self.housekeeping = Housekeeping(services, self.flusher)
        self.job_count = 6

    def start(self) -> None:
        self.housekeeping.start()

    async def run_for(self, duration_ms: int) -> None:
        await self.clock.run_for(duration_ms, self.job_count)

    async def restart(self) -> None:
        await self.housekeeping.stop()
        await self.flusher.drain()
        self.logs.close()
        self.open()

    async def close(self) -> None:
        await self.housekeeping.stop()
        await self.flusher.drain()
        self.flusher.close()
        self.logs.close()

    def write(self, topic: str = "t", index: int = 0, *, key: bytes = b"k", count: int = 1) -> PartitionLog:
        partition = self.partitions.leader(topic, index)
        for i in range(count):
            batch = build_batch([Record(0, self.clock.time_ms, key, b"%d" % i * 50)])
            partition.append(memoryview(batch), read_header(batch), self.clock.time_ms)
        return partition.log

    def checkpoint(self, name: str) -> str:
        path = self.root / name
        return path.read_text() if path.exists() else ""

    def names(self, partition: str = "t-0") -> list[str]:
        return sorted(path.name for path in (self.root / partition).iterdir())


@pytest_asyncio.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path)
    yield world
    await world.close()


@pytest_asyncio.fixture
async def lazy_world(tmp_path: Path) -> AsyncIterator[World]:
    """A world in which acks do not wait for the disk."""
    world = World(tmp_path, flush_on_ack=False)
    yield world
    await world.close()


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
    await world.housekeeping.retain()
    assert log.log_start_offset == 30
    world.clock.time_ms += MINUTE_MS
    world.disk.threads.clear()
    await world.housekeeping.checkpoint()
    await world.housekeeping.remove_files()
    assert world.disk.threads.keys() == {"sync", "unlink"}
    assert all(threading.get_ident() not in threads for threads in world.disk.threads.values())


async def test_expired_segments_go_and_their_files_after_the_delay(world: World) -> None:
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


async def test_directories_of_deleted_partitions_go_after_the_delay(world: World) -> None:
    world.write(count=2)
    await world.flusher.drain()
    world.logs.delete("t", 0, token="abc", now_ms=world.clock.time_ms)
    world.start()
    await world.run_for(MINUTE_MS - 1)
    assert (world.root / "t-0.abc-delete").exists()
    await world.run_for(MINUTE_MS)
    assert not (world.root / "t-0.abc-delete").exists()


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
        world.start()
        await world.run_for(MINUTE_MS)
        assert world.disk.directories_read == 40, "to open it, and to look when it is due"
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


async def test_many_partitions_are_looked_at_in_slices() -> None:
    clock = ManualClock()
    done: list[int] = []

    def work(item: int) -> None:
        done.append(item)
        clock.time_ms += 1

    task = asyncio.create_task(slices.in_slices(clock, range(10), work))
    await clock.run_for(0, 1)
    assert len(done) == 3, "a slice ends once it took more than two milliseconds"
    await clock.run_for(20, 1)
    assert len(done) == 6
    await clock.run_for(20, 1)
    await clock.run_for(20, 0)
    await task
    assert len(done) == 10


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

    async def test_files_of_partitions_that_nobody_writes_to(self, world: World) -> None:
        logs = [world.partitions.leader("t", index).log for index in range(40)]
        assert all(log.has_unsynced_files for log in logs)
        world.start()
        await world.run_for(MINUTE_MS)
        await world.flusher.drain()
        assert not any(log.has_unsynced_files for log in logs)

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
        assert idle.recovery_point == 1


def compacted(**values: Any) -> LogConfig:
    return LogConfig(
        segment_bytes=1000, cleanup_compact=True, cleanup_delete=False, file_delete_delay_ms=MINUTE_MS, **values
    )


def keys_and_offsets(log: PartitionLog) -> list[tuple[bytes | None, int]]:
    records = []
    offset = log.log_start_offset
    while offset < log.end_offset:
        result = log.read(offset, size_bytes_max=1 << 20, end_offset=log.end_offset)
        position = 0
        while position < len(result.records):
            header = read_header(result.records, position)
            batch = result.records[position : position + header.size_bytes]
            records += [(record.key, record.offset) for record in iter_records(batch)]
            position += header.size_bytes
        offset = result.next_offset
    return records


class TestCompaction:
    @pytest.mark.parametrize("flush_on_ack", [True, False])
    async def test_dirty_logs_are_cleaned(self, tmp_path: Path, flush_on_ack: bool) -> None:
        world = World(tmp_path, flush_on_ack=flush_on_ack, config=compacted())
        log = world.write(count=50)
        other = world.write("other", key=b"x", count=30)
        await world.flusher.drain()
        world.start()
        await world.run_for(30_000)
        for cleaned in (log, other):
            closed = [offset for _, offset in keys_and_offsets(cleaned) if offset < cleaned.active.base_offset]
            assert closed == [cleaned.active.base_offset - 1]
        await world.run_for(MINUTE_MS)
        lines = world.checkpoint("cleaner-offset-checkpoint").splitlines()[2:]
        assert sorted(lines) == [f"other 0 {other.active.base_offset}", f"t 0 {log.active.base_offset}"]
        before = keys_and_offsets(log)
        await world.restart()
        assert keys_and_offsets(world.partitions.leader("t", 0).log) == before
        await world.close()

    async def test_when_disabled_nothing_is_cleaned(self, tmp_path: Path) -> None:
        world = World(tmp_path, config=compacted())
        world.settings["log.cleaner.enable"] = "false"
        await world.restart()
        world.job_count -= 1
        log = world.write(count=50)
        await world.flusher.drain()
        world.start()
        await world.run_for(5 * MINUTE_MS)
        assert len(keys_and_offsets(log)) == 50
        await world.close()

    async def test_a_dirty_log_that_nobody_opens(self, tmp_path: Path) -> None:
        world = World(tmp_path, config=compacted())
        world.write(count=50)
        await world.flusher.drain()
        await world.restart()
        world.start()
        await world.run_for(6 * MINUTE_MS)
        assert len(keys_and_offsets(world.logs.logs["t", 0])) < 20
        await world.close()

    async def test_compact_and_delete(self, tmp_path: Path) -> None:
        config = compacted(retention_ms=MINUTE_MS).replace(cleanup_delete=True)
        world = World(tmp_path, config=config)
        log = world.write(count=50)
        await world.flusher.drain()
        world.start()
        await world.run_for(30_000)
        assert log.log_start_offset == 0
        await world.run_for(MINUTE_MS)
        assert log.log_start_offset == 50
        await world.close()

    async def test_damage_ends_it_for_one_log_only(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        world = World(tmp_path, config=compacted())
        damaged = world.write("damaged", count=50)
        log = world.write(count=50)
        await world.flusher.drain()
        path = tmp_path / "damaged-0" / "00000000000000000000.log"
        data = bytearray(path.read_bytes())
        data[100] ^= 1
        path.write_bytes(data)
        world.start()
        with caplog.at_level(logging.ERROR):
            await world.run_for(10 * MINUTE_MS)
        assert len(caplog.records) == 1
        assert "checksum" in caplog.text
        assert len(damaged.segments.items) > 2
        assert len(keys_and_offsets(log)) < 20
        assert not damaged.is_offline
        await world.close()

    async def test_a_full_disk_is_tried_again(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        world = World(tmp_path, config=compacted())
        log = world.write(count=50)
        await world.flusher.drain()
        with monkeypatch.context() as patch, caplog.at_level(logging.ERROR):
            patch.setattr(PartitionLog, "create_cleaned_segment", _no_space)
            world.start()
            await world.run_for(MINUTE_MS)
        assert "No space left" in caplog.text
        assert len(caplog.records) == 1
        await world.run_for(log_cleaning.RETRY_MS)
        assert len(keys_and_offsets(log)) < 20
        await world.close()

    @pytest.mark.parametrize("how", ["stop", "delete", "retain"])
    async def test_it_ends_when_something_comes_in_between(
        self, tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The cleaning thread is held in the middle of a segment until the other thing has begun."""
        world = World(tmp_path, config=compacted())
        log = world.write(count=50)
        await world.flusher.drain()
        reached, release = threading.Event(), threading.Event()
        advance = log_cleaning._Pace.advance

        def held(pace: Any, size_bytes: int) -> None:
            reached.set()
            release.wait(10)
            time.sleep(log_cleaning.TURN_S)
            advance(pace, size_bytes)

        monkeypatch.setattr(log_cleaning._Pace, "advance", held)
        cleaning = asyncio.create_task(world.housekeeping.clean())
        while not reached.is_set():
            await asyncio.sleep(0.001)
        if how == "stop":
            world.housekeeping._tasks.append(cleaning)  # type: ignore[arg-type]
            stopping = asyncio.create_task(world.housekeeping.stop())
            await asyncio.sleep(0)
            assert not cleaning.done()
            release.set()
            await stopping
            assert len(keys_and_offsets(log)) == 50
        elif how == "delete":
            world.logs.delete("t", 0, token="x", now_ms=START_MS)
            release.set()
            await cleaning
            assert ("t", 0) not in world.logs.cleaner_offsets
        else:
            log.delete_records_before(15)
            await world.housekeeping.retain()
            assert log.segments.base_offsets[0] == 0, "nobody takes segments out of a log that is being cleaned"
            log.delete_segments_before(15, now_ms=START_MS)
            release.set()
            await cleaning
            assert keys_and_offsets(log)[-1] == (b"k", 49)
            assert ("t", 0) not in world.logs.cleaner_offsets
        if how != "delete":
            assert not [name for name in world.names() if name.endswith(".cleaned")]
        await world.close()

    async def test_it_goes_no_faster_than_allowed(self, tmp_path: Path) -> None:
        world = World(tmp_path, config=compacted())
        world.settings["log.cleaner.io.max.bytes.per.second"] = "50000"
        await world.restart()
        log = world.write(count=100)
        await world.flusher.drain()
        size_bytes = sum(segment.size_bytes for segment in log.closed_segments())
        started = time.monotonic()
        await world.housekeeping.clean()
        # Everything is read twice: for the keys, and to be copied.
        assert time.monotonic() - started >= 2 * size_bytes / 50_000 - 0.01
        await world.close()


def _no_space(log: PartitionLog, base_offset: int) -> None:
    raise OSError(28, "No space left on device")
