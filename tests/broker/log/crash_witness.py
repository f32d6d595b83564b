"""Sees what a scenario does to a log, and compares it with what a crash has left. Used by test_crash.py."""

from __future__ import annotations

import random
from typing import Any

from log_helpers import NOW, TOPIC_ID, History, append, batch_of, flush_ahead, open_manager, read_all
from simulated_disk import SimulatedDisk

from oncelog.broker.log import large_snapshots, segment_swap
from oncelog.broker.log.log_manager import LogManager
from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.log.removal import delete_segments_before
from oncelog.broker.log.steps import Steps
from oncelog.broker.log.txn_index import AbortedTxn
from oncelog.protocol.records.batch import iter_headers, read_header


class Witness:
    """What a scenario did, and what must be true of whatever disk is left."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self.disk = disk
        self.manager = open_manager(disk)
        self.is_running = True
        self.log = self.manager.create("t", 0, TOPIC_ID, now_ms=NOW)
        self.history = History()
        self.required_end = 0
        """Batches below were flushed and must be there."""
        self.start_min = 0
        self.start_max = 0
        self.optional: set[int] = set()
        """Base offsets of batches that cleaning is about to remove."""
        self.sequences: dict[int, int] = {}

    # -- what a scenario does --------------------------------------------------------------------------------

    def append(self, count: int = 1, *, producer_id: int = -1, transactional: bool = False) -> None:
        sequence = self.sequences.get(producer_id, 0) if producer_id >= 0 else -1
        batch = batch_of(
            count,
            value=b"%d" % len(self.history.batches) * 10,
            producer_id=producer_id,
            epoch=0 if producer_id >= 0 else -1,
            sequence=sequence,
            transactional=transactional,
        )
        # Noted first: a batch of which the crash kept every byte may be there as well.
        before = self.log.end_offset
        header = read_header(batch)
        copy = bytearray(batch)
        copy[:8] = before.to_bytes(8, "big")
        copy[12:16] = bytes(4)
        self.history.add(copy)
        append(self.log, batch)
        assert bytes(batch) == bytes(copy)
        if producer_id >= 0:
            self.sequences[producer_id] = sequence + header.last_offset_delta + 1

    def append_idempotent(self, producer_id: int, rng: random.Random) -> None:
        """The next batch of a producer, in its transaction if it has one, else perhaps in a new one."""
        entry = self.log.producers.entries.get(producer_id)
        self.sequences[producer_id] = entry.last_sequence + 1 if entry else 0
        in_transaction = entry is not None and entry.txn_first_offset >= 0
        self.append(rng.randint(1, 3), producer_id=producer_id, transactional=in_transaction or rng.random() < 0.5)

    def mark(self, producer_id: int, *, commit: bool) -> None:
        self.history_of_marker(producer_id, commit)
        self.log.append_marker(
            producer_id=producer_id,
            producer_epoch=0,
            commit=commit,
            coordinator_epoch=1,
            leader_epoch=0,
            now_ms=NOW,
        )

    def history_of_marker(self, producer_id: int, commit: bool) -> None:
        from oncelog.protocol.records.control import ControlType, EndTxnMarker, build_marker_batch

        marker = EndTxnMarker(ControlType.COMMIT if commit else ControlType.ABORT, 1)
        self.history.add(
            build_marker_batch(
                marker,
                producer_id=producer_id,
                producer_epoch=0,
                timestamp=NOW,
                base_offset=self.log.end_offset,
                leader_epoch=0,
            )
        )

    def flush(self) -> None:
        end = self.log.end_offset
        flush_ahead(self.log)
        assert self.log.flushed_offset == end
        self.required_end = end
        self.log.update_high_watermark(end)

    def flush_beside(self, rng: random.Random) -> None:
        """A flush during which the log goes on."""
        end = self.log.end_offset
        ticket = self.log.begin_flush(ahead=True)
        if rng.random() < 0.5:
            self.append(2)
        if rng.random() < 0.5:
            self.log.roll(now_ms=NOW)
        if ticket is not None:
            ticket.run()
            assert self.log.complete_flush(ticket) >= end
        self.required_end = end
        if rng.random() < 0.5:
            self.manager.write_checkpoints()

    def restart(self) -> None:
        end = self.log.end_offset
        self.stop(broker_epoch=3)
        if self.disk.exists("/data/.kafka_cleanshutdown"):
            self.required_end = end
        self.disk.locked.clear()
        self.manager = open_manager(self.disk)
        self.is_running = True
        log = self.manager.get("t", 0, now_ms=NOW)
        assert log is not None
        self.log = log
        log.update_high_watermark(end)

    def stop(self, broker_epoch: int = -1) -> None:
        if self.is_running:
            self.is_running = False
            self.manager.close(broker_epoch=broker_epoch)

    def delete_records(self, offset: int) -> None:
        self.start_max = offset
        self.log.delete_records_before(offset)

    def delete_segments(self, offset: int, rng: random.Random | None = None) -> None:
        self.start_max = max(self.start_max, offset)
        self._run_beside(delete_segments_before(self.log, offset, NOW), rng)

    def write_large_snapshot(self, rng: random.Random | None = None) -> None:
        self._run_beside(large_snapshots.write(self.log), rng)

    def _run_beside(self, steps: Steps[Any], rng: random.Random | None) -> None:
        """Does what is written in steps while the log goes on."""
        for step in steps:
            self._maybe_go_on(rng)
            if step is not None:
                step()
            self._maybe_go_on(rng)

    def _maybe_go_on(self, rng: random.Random | None) -> None:
        if rng is None:
            return
        kind = rng.choice(["append", "idempotent", "idempotent", "roll", "flush", "checkpoint", "", "", ""])
        if kind == "append":
            self.append(2)
        elif kind == "idempotent":
            self.append_idempotent(rng.randint(1, 3), rng)
        elif kind == "roll":
            self.log.roll(now_ms=NOW)
        elif kind == "flush":
            self.flush()
        elif kind == "checkpoint":
            self.manager.write_checkpoints()

    def truncate(self, offset: int) -> None:
        self.required_end = min(self.required_end, offset)
        self.manager.truncate_to(self.log, offset, now_ms=NOW)
        self.history.truncate(offset)

    def clean(self, rng: random.Random | None = None) -> None:
        """Keeps every other batch of all closed segments but the newest, in one segment."""
        old = self.log.closed_segments()[:-1]
        cleaned = self.log.create_cleaned_segment(old[0].base_offset)
        for i, (position, header, batch) in enumerate(self._batches_of(old)):
            del position
            if i % 2 == 0 or header.producer_id >= 0:
                cleaned.append(batch, header.last_offset, header.max_timestamp)
            else:
                self.optional.add(header.base_offset)
        for segment in old:
            aborted: list[AbortedTxn] = []
            segment.collect_aborted(0, self.log.end_offset, aborted)
            for txn in aborted:
                cleaned.add_aborted(txn)
        cleaned.finish()
        self._run_beside(segment_swap.replace(self.log, old, cleaned, NOW), rng)
        self.log.maybe_remove_files(NOW)

    def _batches_of(self, segments):  # type: ignore[no-untyped-def]
        for segment in segments:
            data = segment.disk.pread(segment.file(), segment.size_bytes, 0)
            for position, header in iter_headers(data):
                yield position, header, data[position : position + header.size_bytes]

    # -- what must be true -----------------------------------------------------------------------------------

    def check(self, disk: SimulatedDisk) -> None:
        manager = open_manager(disk)
        assert not manager.failures
        if ("t", 0) not in manager.partitions():
            assert self.required_end == 0
            return
        log = manager.get("t", 0, now_ms=NOW)
        assert log is not None
        self._check_content(log)
        self.history.check_state(log)
        assert log.flushed_offset == log.end_offset
        self._check_durable(disk, log)
        self._go_on(manager, log)

    def resume(self, disk: SimulatedDisk) -> None:
        """The next start, on what is left. What it finds is promised from then on."""
        self.disk = disk
        self.manager = open_manager(disk)
        assert not self.manager.failures
        assert self.required_end == 0 or ("t", 0) in self.manager.partitions()
        self.is_running = True
        self.log = log = self.manager.create("t", 0, TOPIC_ID, now_ms=NOW)
        self._check_content(log)
        self.history.check_state(log)
        self.required_end = log.end_offset
        self.start_min = min(self.start_min, log.log_start_offset)

    def _check_durable(self, disk: SimulatedDisk, log: PartitionLog) -> None:
        """What a log gives as flushed is still there after a power cut."""
        manager = open_manager(disk.after_power_cut(disk.rng))
        assert not manager.failures
        again = manager.get("t", 0, now_ms=NOW)
        if again is None:
            assert log.end_offset == 0
            return
        # Batches that were truncated before the crash may be there again.
        batches = read_all(log)
        assert read_all(again)[: len(batches)] == batches
        if again.end_offset == log.end_offset:
            self.history.check_state(again)

    def _check_content(self, log: PartitionLog) -> None:
        assert self.start_min <= log.log_start_offset <= self.start_max
        assert log.end_offset >= self.required_end
        known = {read_header(batch).base_offset: batch for batch in self.history.batches}
        found = {read_header(batch).base_offset: batch for batch in read_all(log)}
        for offset, batch in found.items():
            assert batch == known[offset]
        for offset, batch in known.items():
            last_offset = read_header(batch).last_offset
            if last_offset >= log.log_start_offset and last_offset < log.end_offset:
                assert offset in found or offset in self.optional
        self.history.truncate(log.end_offset)

    def _go_on(self, manager: LogManager, log: PartitionLog) -> None:
        """The log takes more, deduplicates what it has, and survives a clean stop."""
        for producer_id, entry in log.producers.entries.items():
            if entry.batches:
                last = entry.batches[-1]
                retry = batch_of(
                    last.last_sequence - last.first_sequence + 1,
                    producer_id=producer_id,
                    epoch=0,
                    sequence=last.first_sequence,
                    transactional=entry.txn_first_offset >= 0,
                )
                result = append(log, retry)
                assert result.duplicate
                assert result.first_offset == last.first_offset
        end = log.end_offset
        batch = batch_of(2)
        assert append(log, batch).first_offset == end
        self.history.add(batch)
        log.flush()
        disk = manager.disk
        assert isinstance(disk, SimulatedDisk)
        self._check_durable(disk, log)
        expected = read_all(log)
        manager.close()
        for left in (disk.after_kill(), disk.after_power_cut(disk.rng)):
            again = open_manager(left)
            assert again.previous_broker_epoch == -1
            log = again.get("t", 0, now_ms=NOW)  # type: ignore[assignment]
            assert log.end_offset == end + 2
            assert read_all(log) == expected
            self.history.check_state(log)
