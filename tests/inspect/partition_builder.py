"""Writes a data directory with one partition as a broker would leave it, without a broker."""

from __future__ import annotations

from pathlib import Path

from oncelog.broker.log import checkpoints, offset_index, producer_snapshot, time_index, txn_index
from oncelog.broker.log.disk import Disk
from oncelog.broker.log.producer_entry import ProducerBatch, ProducerEntry
from oncelog.protocol.records.batch import build_batch, read_header
from oncelog.protocol.records.compression import Compression
from oncelog.protocol.records.control import ControlType, EndTxnMarker, build_marker_batch
from oncelog.protocol.records.record import Record

TOPIC = "built"
START_MS = 1_700_000_000_000


class PartitionBuilder:
    """Each batch gets an entry in both indexes, so that every entry can be damaged and found."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.directory = root / f"{TOPIC}-0"
        self.directory.mkdir(parents=True)
        self.offset = 0
        self.timestamp = START_MS
        self.epoch = 0
        self.epochs = [(0, 0)]
        self.producers: dict[int, ProducerEntry] = {}
        self._begin()

    def _begin(self) -> None:
        self.base_offset = self.offset
        self.log = bytearray()
        self.index = b""
        self.time_index = b""
        self.aborted: list[txn_index.AbortedTxn] = []

    def append(self, batch: bytearray) -> None:
        header = read_header(batch)
        if self.log:
            self.index += offset_index.ENTRY.pack(header.last_offset - self.base_offset, len(self.log))
        self.time_index += time_index.ENTRY.pack(header.max_timestamp, header.last_offset - self.base_offset)
        self.log += batch
        self.offset = header.last_offset + 1

    def data(
        self,
        count: int = 3,
        *,
        producer_id: int = -1,
        transactional: bool = False,
        compression: Compression = Compression.NONE,
    ) -> None:
        records = []
        for _ in range(count):
            self.timestamp += 1
            records.append(Record(0, self.timestamp, b"key", b"value" * 20, [("h", b"x")]))
        sequence = -1
        first_offset = self.offset
        if producer_id >= 0:
            entry = self.producers.setdefault(producer_id, ProducerEntry(producer_id, 0))
            sequence = entry.last_sequence + 1
            entry.add_batch(
                ProducerBatch(sequence, sequence + count - 1, first_offset, first_offset + count - 1, self.timestamp)
            )
            if transactional and entry.txn_first_offset < 0:
                entry.txn_first_offset = first_offset
        self.append(
            build_batch(
                records,
                base_offset=first_offset,
                leader_epoch=self.epoch,
                compression=compression,
                producer_id=producer_id,
                producer_epoch=0 if producer_id >= 0 else -1,
                base_sequence=sequence,
                transactional=transactional,
            )
        )

    def end_transaction(self, producer_id: int, kind: ControlType) -> None:
        self.timestamp += 1
        entry = self.producers[producer_id]
        first, entry.txn_first_offset = entry.txn_first_offset, -1
        entry.last_timestamp, entry.coordinator_epoch = self.timestamp, 0
        if kind is ControlType.ABORT:
            still_open = [each.txn_first_offset for each in self.producers.values() if each.txn_first_offset >= 0]
            stable = min(still_open, default=self.offset + 1)
            self.aborted.append(txn_index.AbortedTxn(producer_id, first, self.offset, stable))
        self.append(
            build_marker_batch(
                EndTxnMarker(kind, 0),
                producer_id=producer_id,
                producer_epoch=0,
                timestamp=self.timestamp,
                base_offset=self.offset,
                leader_epoch=self.epoch,
            )
        )

    def new_epoch(self) -> None:
        self.epoch += 1
        self.epochs.append((self.epoch, self.offset))

    def roll(self) -> None:
        self._write_segment()
        self._begin()
        self._write_snapshot()

    def close(self, *, clean: bool = True) -> None:
        self._write_segment()
        self._write_snapshot()
        lines = [f"{epoch} {start}" for epoch, start in self.epochs]
        (self.directory / "leader-epoch-checkpoint").write_bytes(checkpoints.encode_lines(lines))
        metadata = checkpoints.encode_partition_metadata(bytes([7] * 16))
        (self.directory / "partition.metadata").write_bytes(metadata)
        for name in (checkpoints.RECOVERY_POINTS, checkpoints.HIGH_WATERMARKS):
            checkpoints.write_offsets(Disk(), str(self.root / name), {(TOPIC, 0): self.offset})
        if clean:
            checkpoints.write_clean_shutdown(Disk(), str(self.root), 1)

    def _write_segment(self) -> None:
        stem = self.directory / f"{self.base_offset:020d}"
        stem.with_suffix(".log").write_bytes(self.log)
        stem.with_suffix(".index").write_bytes(self.index)
        stem.with_suffix(".timeindex").write_bytes(self.time_index)
        if self.aborted:
            stem.with_suffix(".txnindex").write_bytes(txn_index.encode(self.aborted))

    def _write_snapshot(self) -> None:
        path = self.directory / f"{self.offset:020d}.snapshot"
        path.write_bytes(producer_snapshot.encode(self.producers.values()))


def build_partition(root: Path, *, clean: bool = True) -> Path:
    """Two segments with everything that a check looks at; returns the partition's directory."""
    builder = PartitionBuilder(root)
    for codec in Compression:
        builder.data(5, compression=codec)
    builder.data(3, producer_id=10)
    builder.data(2, producer_id=10)
    builder.data(4, producer_id=20, transactional=True)
    builder.data(1, producer_id=30, transactional=True)
    builder.end_transaction(20, ControlType.ABORT)
    builder.new_epoch()
    builder.data(4, producer_id=20, transactional=True)
    builder.roll()
    builder.data(2, producer_id=10)
    builder.end_transaction(30, ControlType.COMMIT)
    builder.data(3, producer_id=20, transactional=True)
    builder.end_transaction(20, ControlType.ABORT)
    builder.data(3)
    builder.data(3, producer_id=30, transactional=True)
    builder.data(3)
    builder.close(clean=clean)
    return builder.directory
