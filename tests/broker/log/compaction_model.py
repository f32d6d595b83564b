"""A model of what a compacted log must show, whatever the cleaner did.

It keeps every record that was ever written and how its transaction ended. What is read must be a part of that,
in its order, with the last value of every key.
"""

from __future__ import annotations

from collections import Counter

from compaction_helpers import COMPACTED, DELETE_RETENTION_MS, CompactedLog, Read

from oncelog.protocol.records.compression import Compression

KEYS = [b"a", b"b", b"c", b"d" * 50, b"e" * 50]
PRODUCERS = [-1, 1, 2, 3]
TRANSACTIONAL = {2, 3}


class Written:
    """A record as it was written, and what became of it."""

    def __init__(self, read: Read, producer_id: int, written_ms: int) -> None:
        self.read = read
        self.producer_id = producer_id
        self.written_ms = written_ms
        self.outcome = "open" if producer_id in TRANSACTIONAL else "committed"


class Model:
    def __init__(self) -> None:
        self.log = CompactedLog(COMPACTED.replace(segment_bytes=500))
        self.written: list[Written] = []
        self.values = Counter[bytes]()

    # -- what happens ----------------------------------------------------------------------------------------

    def write(self, records: list[tuple[bytes, bool]], producer_id: int, compression: Compression) -> None:
        batch = []
        for key, is_tombstone in records:
            self.values[key] += 1
            batch.append((key, None if is_tombstone else b"%d" % self.values[key]))
        first = self.log.write(
            *batch,
            producer_id=producer_id,
            transactional=producer_id in TRANSACTIONAL,
            compression=compression,
        )
        for i, (key, value) in enumerate(batch):
            self.written.append(Written(Read(first + i, key, value), producer_id, self.log.now_ms))

    def end(self, producer_id: int, commit: bool) -> None:
        self.log.mark(producer_id, commit=commit)
        for written in self.written:
            if written.producer_id == producer_id and written.outcome == "open":
                written.outcome = "committed" if commit else "aborted"

    def roll(self) -> None:
        self.log.roll()

    def clean(self, keys_max: int) -> None:
        self.log.clean(keys_max)
        self.check()

    def wait(self, milliseconds: int) -> None:
        self.log.now_ms += milliseconds

    def restart(self, with_snapshots: bool) -> None:
        before = {p: (e.epoch, e.last_sequence) for p, e in self.log.log.producers.entries.items()}
        disk = self.log.disk
        self.log.manager.close()
        disk.locked.clear()
        if not with_snapshots:
            for name in disk.listdir("/data/t-0"):
                if name.endswith(".snapshot"):
                    disk.unlink(f"/data/t-0/{name}")
        again = CompactedLog(self.log.config, disk)
        again.now_ms, again.sequences = self.log.now_ms, self.log.sequences
        self.log = again
        after = {p: (e.epoch, e.last_sequence) for p, e in again.log.producers.entries.items()}
        assert after == before, "what producers wrote can be told from the batches alone"
        self.check()

    # -- what must be true -----------------------------------------------------------------------------------

    def check(self) -> None:
        self.log.settle()
        stable = self.log.log.last_stable_offset
        opened = [written.read.offset for written in self.written if written.outcome == "open"]
        assert stable == min(opened, default=self.log.log.end_offset)
        by_offset = {written.read.offset: written for written in self.written}
        for reads, end in ((self.log.read(), self.log.log.end_offset), (self.log.read_committed(), stable)):
            assert [read.offset for read in reads] == sorted({read.offset for read in reads})
            for read in reads:
                assert read == by_offset[read.offset].read
            self.check_last_values({read.offset for read in reads}, end)
        for read in self.log.read_committed():
            assert by_offset[read.offset].outcome == "committed"
        present = {read.offset for read in self.log.read()}
        assert set(opened) <= present
        active = self.log.log.active.base_offset
        assert {offset for offset in by_offset if offset >= active} <= present

    def check_last_values(self, present: set[int], end: int) -> None:
        committed = [w for w in self.written if w.outcome == "committed" and w.read.offset < end]
        for key in KEYS:
            of_key = [written for written in committed if written.read.key == key]
            if not of_key or of_key[-1].read.offset in present:
                continue
            last = of_key[-1]
            assert last.read.value is None, f"the last value of {key!r} is lost"
            assert self.log.now_ms - last.written_ms >= DELETE_RETENTION_MS
            assert not present & {written.read.offset for written in of_key}, "a deleted value is back"
