"""Compaction in the background, with time in the test's hands and real files."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from housekeeping_world import MINUTE_MS, START_MS, World

from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.maintenance import log_cleaning
from oncelog.protocol.records.batch import read_header
from oncelog.protocol.records.record import iter_records


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

    async def test_not_while_retention_takes_segments_out(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Retention is held in the thread that syncs for it."""
        world = World(tmp_path, config=compacted())
        log = world.write(count=50)
        await world.flusher.drain()
        log.delete_records_before(15)
        reached, release = threading.Event(), threading.Event()
        fsync_dir = world.disk.fsync_dir

        def held(path: str) -> None:
            reached.set()
            release.wait(10)
            fsync_dir(path)

        with monkeypatch.context() as patch:
            patch.setattr(world.disk, "fsync_dir", held)
            retaining = asyncio.create_task(world.housekeeping.retain())
            while not reached.is_set():
                await asyncio.sleep(0.001)
            assert await world.housekeeping.clean() > 0, "nothing to clean for now"
            assert not retaining.done()
            release.set()
            await retaining
        assert log.segments.base_offsets[0] > 0
        assert await world.housekeeping.clean() == 0
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
