"""Writing to a compacted log, cleaning it, and reading it as consumers of both isolation levels do."""

from __future__ import annotations

from typing import NamedTuple

from log_helpers import CONFIG, NOW, TOPIC_ID, open_manager, read_all
from simulated_disk import SimulatedDisk

from oncelog.broker.log.cleaner import clean
from oncelog.broker.log.compaction import plan_cleaning
from oncelog.broker.log.log_manager import LogManager
from oncelog.broker.log.offset_map import ENTRY_BYTES, OffsetMap
from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.log.steps import run
from oncelog.protocol.records.batch import build_batch, read_header
from oncelog.protocol.records.compression import Compression
from oncelog.protocol.records.control import ControlType, decode_control_key
from oncelog.protocol.records.record import Record, iter_records

DELETE_RETENTION_MS = 1000
COMPACTED = CONFIG.replace(
    cleanup_compact=True,
    cleanup_delete=False,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=DELETE_RETENTION_MS,
)
KeyValue = tuple[bytes | None, bytes | None]


class Read(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None


class CompactedLog:
    """A log with a clock, on a simulated disk that can be reopened."""

    def __init__(self, config=COMPACTED, disk: SimulatedDisk | None = None) -> None:  # type: ignore[no-untyped-def]
        self.config = config
        self.disk = disk or SimulatedDisk()
        self.now_ms = NOW
        self.manager: LogManager = open_manager(self.disk, config)
        self.log: PartitionLog = self.manager.create("t", 0, TOPIC_ID, now_ms=NOW)
        self.sequences: dict[int, int] = {}

    def write(
        self,
        *records: KeyValue,
        producer_id: int = -1,
        transactional: bool = False,
        compression: Compression = Compression.NONE,
        timestamp: int | None = None,
    ) -> int:
        """One batch; returns its first offset."""
        stamp = self.now_ms if timestamp is None else timestamp
        sequence = self.sequences.get(producer_id, 0) if producer_id >= 0 else -1
        batch = build_batch(
            [Record(0, stamp, key, value, [("h", b"x")]) for key, value in records],
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=sequence,
            transactional=transactional,
            compression=compression,
        )
        result = self.log.append(batch, read_header(batch), leader_epoch=0, now_ms=self.now_ms)
        if producer_id >= 0:
            self.sequences[producer_id] = sequence + len(records)
        return result.first_offset

    def mark(self, producer_id: int, *, commit: bool, epoch: int = 0) -> int:
        return self.log.append_marker(
            producer_id=producer_id,
            producer_epoch=epoch,
            commit=commit,
            coordinator_epoch=1,
            leader_epoch=0,
            now_ms=self.now_ms,
        ).first_offset

    def roll(self) -> None:
        self.log.roll(now_ms=self.now_ms)

    def settle(self) -> None:
        """Everything is durable and readable."""
        self.log.flush()
        self.log.update_high_watermark(self.log.end_offset)
        self.manager.write_checkpoints()

    def clean(self, keys_max: int = 1000) -> bool:
        """One round of the cleaner, if the log is dirty; its map takes about `keys_max` keys."""
        self.settle()
        key = ("t", 0)
        plan = run(plan_cleaning(self.log, self.manager.cleaner_offsets.get(key), self.now_ms))
        if plan is None:
            return False
        offset_map = OffsetMap(keys_max * ENTRY_BYTES, 1.0)
        for segments, cleaned in clean(plan, offset_map, lambda size_bytes: None):
            if cleaned is not None:
                self.log.replace_segments(segments, cleaned, now_ms=self.now_ms)
        self.manager.cleaner_offsets[key] = offset_map.latest_offset + 1
        self.manager.write_checkpoints()
        self.log.maybe_remove_files(self.now_ms)
        return True

    def clean_all(self) -> None:
        """Everything that was written so far becomes clean."""
        self.roll()
        self.clean()

    def reopen(self) -> None:
        self.manager.close()
        self.disk.locked.clear()
        self.manager = open_manager(self.disk, self.config)
        log = self.manager.get("t", 0, now_ms=self.now_ms)
        assert log is not None
        self.log = log
        log.update_high_watermark(log.end_offset)

    # -- reading ---------------------------------------------------------------------------------------------

    def headers(self) -> list:  # type: ignore[type-arg]
        return [read_header(batch) for batch in read_all(self.log)]

    def read(self) -> list[Read]:
        """What read_uncommitted sees."""
        return [
            Read(record.offset, record.key, record.value)
            for batch in read_all(self.log)
            if not read_header(batch).is_control
            for record in iter_records(batch)
        ]

    def read_committed(self) -> list[Read]:
        """What read_committed sees, by the algorithm of Kafka's consumers."""
        end = self.log.last_stable_offset
        aborted = self.log.aborted_transactions(self.log.log_start_offset, end)
        aborted_ids: set[int] = set()
        seen = []
        for batch in read_all(self.log):
            header = read_header(batch)
            if header.base_offset >= end:
                break
            while aborted and aborted[0].first_offset <= header.last_offset:
                aborted_ids.add(aborted.pop(0).producer_id)
            if header.is_control:
                for record in iter_records(batch):
                    if decode_control_key(record.key) == ControlType.ABORT:
                        aborted_ids.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborted_ids):
                seen += [Read(record.offset, record.key, record.value) for record in iter_records(batch)]
        return seen
