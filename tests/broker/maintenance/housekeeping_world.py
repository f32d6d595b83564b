"""A broker without sockets and coordinators for tests of its background work: time in their hands, real files."""

from __future__ import annotations

import asyncio
import heapq
import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from oncelog.broker.base.clock import Clock
from oncelog.broker.config.load import load_config
from oncelog.broker.log.disk import Disk
from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.log_manager import LogManager
from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.maintenance.housekeeping import Housekeeping
from oncelog.broker.replica.checkpoint_writer import CheckpointWriter
from oncelog.broker.replica.flusher import Flusher
from oncelog.broker.replica.partition import Partition
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.records.batch import build_batch, read_header
from oncelog.protocol.records.record import Record

TOPIC_ID = bytes([9] * 16)
START_MS = 1_000_000_000
MINUTE_MS = 60_000


class ManualClock(Clock):
    """Time that passes only in `run_for`, from one sleeper's date to the next."""

    def __init__(self) -> None:
        self.time_ms = START_MS
        self.sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = count()
        super().__init__()

    def wall_ms(self) -> int:
        return self.time_ms

    def steady_ms(self) -> int:
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

    def fsync_dir(self, path: str) -> None:
        self.threads.setdefault("sync", set()).add(threading.get_ident())
        super().fsync_dir(path)

    def unlink(self, path: str) -> None:
        if path.endswith(".deleted"):
            self.threads.setdefault("unlink", set()).add(threading.get_ident())
        super().unlink(path)

    def file_sizes(self, path: str) -> dict[str, int]:
        self.directories_read += 1
        self.threads.setdefault("list", set()).add(threading.get_ident())
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
            self.opened[key] = Partition(topic, TOPIC_ID, index, log, self.world.flusher, self.world.flush_on_ack)
            self.opened[key].become_leader(0, in_sync_count=1)
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
        services.checkpoints = CheckpointWriter(self.logs)
        services.config = load_config(options=[f"{name}={value}" for name, value in self.settings.items()])
        self.services = services
        self.housekeeping = Housekeeping(services, self.flusher)
        self.job_count = 7

    def start(self) -> None:
        self.housekeeping.start()

    async def run_for(self, duration_ms: int) -> None:
        await self.clock.run_for(duration_ms, self.job_count)

    async def asleep_until(self, due_ms: int) -> None:
        """Waits until some job sleeps up to that time."""
        while not any(when_ms == due_ms and not future.done() for when_ms, _, future in self.clock.sleepers):
            await asyncio.sleep(0.0005)

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
