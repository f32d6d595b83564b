"""The high watermark and who is told of its moves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from oncelog.broker.log.disk import Disk
from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.replica.partition import Partition
from oncelog.broker.runtime.flusher import Flusher
from oncelog.protocol.errors import KafkaError
from oncelog.protocol.records.batch import build_batch, read_header
from oncelog.protocol.records.record import Record

NOW_MS = 1_000_000


@pytest.fixture
async def partition(tmp_path: Path) -> AsyncIterator[Partition]:
    """Whose log the tests flush themselves: the flusher does not get a turn before they end."""
    log = PartitionLog.open(
        str(tmp_path / "t-0"),
        LogConfig(),
        Disk(),
        topic="t",
        partition=0,
        topic_id=bytes([1] * 16),
        clean=True,
        now_ms=NOW_MS,
    )
    flusher = Flusher()
    yield Partition("t", bytes([1] * 16), 0, log, 0, flusher, True)
    await flusher.drain()
    flusher.close()
    log.close()


def append(partition: Partition) -> None:
    batch = build_batch([Record(0, NOW_MS, None, bytes(100))])
    partition.append(memoryview(batch), read_header(batch), NOW_MS)


def flush(partition: Partition) -> None:
    partition.log.flush()
    partition.flushed()


async def test_a_callback_that_raises_leaves_the_partition_online(partition: Partition) -> None:
    called: list[KafkaError | None] = []

    def bug(_: KafkaError | None) -> None:
        raise ValueError("a bug")

    append(partition)
    partition.when_safe(1, bug)
    partition.when_safe(1, called.append)
    flush(partition)
    assert called == [None]
    append(partition)
