"""A log under random operations against a list of batches."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from log_helpers import CONFIG, NOW, TOPIC_ID, History, append, batch_of, flush_ahead, open_manager, read_all
from simulated_disk import SimulatedDisk

from oncelog.broker.log.log_manager import LogManager
from oncelog.broker.log.partition_log import PartitionLog
from oncelog.protocol.records.batch import read_header

producers = st.integers(1, 3)


class LogMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.manager: LogManager = open_manager(SimulatedDisk())
        self.log: PartitionLog = self.manager.create("t", 0, TOPIC_ID, now_ms=NOW)
        self.history = History()
        self.log_start = 0
        self.end = 0
        self.flushed = 0
        self.counter = 0

    def _add(self, batch: bytes | bytearray) -> None:
        self.history.add(batch)
        self.end = read_header(batch).last_offset + 1

    @rule(count=st.integers(1, 5), size=st.integers(0, 80))
    def append(self, count: int, size: int) -> None:
        self.counter += 1
        batch = batch_of(count, value=b"x" * size, timestamp=NOW + self.counter)
        assert append(self.log, batch).first_offset == self.end
        self._add(batch)

    @rule(producer=producers, count=st.integers(1, 5), transactional=st.booleans())
    def append_with_sequence(self, producer: int, count: int, transactional: bool) -> None:
        entry = self.log.producers.entries.get(producer)
        sequence = entry.last_sequence + 1 if entry else 0
        transactional |= entry is not None and entry.txn_first_offset >= 0
        batch = batch_of(count, producer_id=producer, epoch=0, sequence=sequence, transactional=transactional)
        again = bytearray(batch)
        result = append(self.log, batch)
        assert (result.first_offset, result.duplicate) == (self.end, False)
        self._add(batch)
        retry = append(self.log, again)
        assert (retry.first_offset, retry.duplicate) == (result.first_offset, True)

    @rule(producer=producers, commit=st.booleans())
    def end_transaction(self, producer: int, commit: bool) -> None:
        result = self.log.append_marker(
            producer_id=producer, producer_epoch=0, commit=commit, coordinator_epoch=0, leader_epoch=0, now_ms=NOW
        )
        assert result.first_offset == self.end
        stored = self.log.read(self.end, size_bytes_max=1, end_offset=self.end + 1)
        self._add(stored.records)

    @rule()
    def roll(self) -> None:
        self.log.roll(now_ms=NOW)

    @rule(ahead=st.booleans())
    def flush(self, ahead: bool) -> None:
        if ahead:
            flush_ahead(self.log)
            assert self.log.flushed_offset == self.end
        else:
            assert self.log.flush() == self.end
        self.log.update_high_watermark(self.end)
        self.flushed = self.end

    @rule(checkpoint=st.booleans(), ahead=st.booleans())
    def begin_flush_and_go_on(self, checkpoint: bool, ahead: bool) -> None:
        ticket = self.log.begin_flush(ahead=ahead)
        covered = self.end
        self.append(1, 10)
        if ticket is not None:
            ticket.run()
            assert self.log.complete_flush(ticket) == covered
        self.flushed = self.log.flushed_offset
        if checkpoint:
            self.manager.write_checkpoints()

    @precondition(lambda self: self.end > self.log_start)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        starts = [h.base_offset for h, _ in self.history.headers(self.end) if h.base_offset >= self.log_start]
        if not starts:
            return
        offset = data.draw(st.sampled_from(starts))
        self.manager.truncate_to(self.log, offset, now_ms=NOW)
        self.history.truncate(offset)
        self.end = offset
        self.flushed = min(self.flushed, offset)

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        high_watermark = self.log.high_watermark
        if high_watermark > self.log_start:
            self.log_start = data.draw(st.integers(self.log_start, high_watermark))
            assert self.log.delete_records_before(self.log_start) == self.log_start

    @rule(data=st.data())
    def delete_segments(self, data: st.DataObject) -> None:
        if self.log.high_watermark < self.log.active.base_offset:
            return
        offset = data.draw(st.sampled_from(self.log.segments.base_offsets))
        self.log.delete_segments_before(offset, now_ms=NOW)
        self.log_start = max(self.log_start, offset if offset > self.log.segments.base_offsets[0] else 0)
        self.log_start = self.log.log_start_offset
        self.log.maybe_remove_files(NOW)

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        self.log.flush()
        if clean:
            self.manager.close()
        else:
            self.manager.write_checkpoints()
        disk = self.manager.disk
        assert isinstance(disk, SimulatedDisk)
        self.manager = open_manager(disk.after_kill())
        assert self.manager.was_clean
        assert not self.manager.failures
        log = self.manager.get("t", 0, now_ms=NOW)
        assert log is not None
        self.log = log
        self.log.update_high_watermark(self.end)
        self.flushed = self.end

    @invariant()
    def offsets_are_right(self) -> None:
        assert self.log.end_offset == self.end
        assert self.log.log_start_offset == self.log_start
        assert self.log.flushed_offset == self.flushed
        assert self.log_start <= self.log.high_watermark <= self.end

    @invariant()
    def content_is_right(self) -> None:
        expected = [b for h, b in self.history.headers(self.end) if h.last_offset >= self.log_start]
        assert read_all(self.log) == expected

    @invariant()
    def files_are_right(self) -> None:
        bases = self.log.segments.base_offsets
        assert bases == sorted(set(bases))
        assert self.log.size_bytes == sum(segment.size_bytes for segment in self.log.segments.items)
        assert len(self.log.files) <= len(bases)
        for segment in self.log.segments.items:
            file = self.manager.disk.names[segment.path(".log")]  # type: ignore[attr-defined]
            assert len(file.data) == max(segment.size_bytes, segment.file_bytes) <= CONFIG.segment_bytes
            assert not any(file.data[segment.size_bytes :])
            assert segment is self.log.active or len(file.data) == segment.size_bytes

    def teardown(self) -> None:
        self.history.check_state(self.log)


LogMachine.TestCase.settings = settings(
    max_examples=120, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestLogMachine = LogMachine.TestCase
