"""The fsck of a partition: every promise of its files that can be checked without the broker.

- each batch: framing, CRC, its records, and a header that agrees with them
- offsets ascend across segments, without gaps where nothing was compacted
- leader epochs never go down, and `leader-epoch-checkpoint` agrees with the batches
- sequences are contiguous for each producer id and epoch, transactions are closed by a marker of theirs
- every index entry leads to a batch that is as the entry says
- the txn index holds exactly the aborted transactions, a snapshot exactly what a replay gives

After a crash the end of the log is for recovery to mend: there, what is missing is a note and not an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

from oncelog.broker.log import checkpoints, leader_epochs
from oncelog.broker.log.batch_scan import CorruptBatch
from oncelog.broker.log.disk import Disk
from oncelog.broker.log.file_names import (
    INDEX,
    LOG,
    SNAPSHOT,
    TIME_INDEX,
    TXN_INDEX,
    offset_file_name,
    offset_of_file,
    offsets_with_suffix,
)
from oncelog.inspect.batch_checks import batch_reason
from oncelog.inspect.directories import PartitionDirectory
from oncelog.inspect.findings import Finding, error, note
from oncelog.inspect.index_checks import SegmentFacts, check_offset_index, check_time_index, check_txn_index
from oncelog.inspect.log_file import LogFile, StoredBatch
from oncelog.inspect.producers import Producers
from oncelog.inspect.snapshot_checks import check_snapshot, read_snapshot

_UNSEQUENCED_TOPICS = frozenset({"__consumer_offsets"})
"""The group coordinator writes a client's transactional offsets with sequence 0, time and again."""

Progress = Callable[[int], None]
"""Called with the number of bytes that were read since the last call."""


class Totals:
    """What was looked at."""

    def __init__(self) -> None:
        self.partitions = 0
        self.segments = 0
        self.batches = 0
        self.records = 0
        self.size_bytes = 0


class PartitionVerifier:
    """Checks one partition; `end_offset` is known afterwards."""

    def __init__(self, directory: PartitionDirectory, totals: Totals, progress: Progress) -> None:
        self.directory = directory
        self.end_offset = 0
        self._totals = totals
        self._progress = progress
        self._names = sorted(entry.name for entry in directory.path.iterdir())
        self._bases = offsets_with_suffix(self._names, LOG)
        self._snapshots = offsets_with_suffix(self._names, SNAPSHOT)
        self._producers = Producers(check_sequences=directory.topic not in _UNSEQUENCED_TOPICS)
        self._trusted = True
        """False once a batch was lost, after which the replay of producers proves nothing."""
        self._expected: int | None = None
        self._alternative: int | None = None
        self._epoch = -1
        self._epoch_starts: list[tuple[int, int, str, int]] = []

    def findings(self) -> Iterator[Finding]:
        self._totals.partitions += 1
        if self._bases:
            self.end_offset = self._bases[0]
            yield from self._load_first_snapshot()
        for base_offset in self._bases:
            yield from self._check_segment(base_offset)
        yield from self._check_snapshots(None)
        yield from self._check_epoch_file()
        yield from self._check_rest()

    def _path(self, offset: int, kind: str) -> Path:
        return self.directory.path / offset_file_name(offset, kind)

    # -- segments --------------------------------------------------------------------------------------------

    def _check_segment(self, base_offset: int) -> Iterator[Finding]:
        self._totals.segments += 1
        yield from self._check_snapshots(base_offset - 1)
        path = self._path(base_offset, LOG)
        yield from self._check_segment_start(str(path), base_offset)
        # Compaction may have taken the last records before it.
        self.end_offset = max(self.end_offset, base_offset)
        yield from self._check_snapshots(base_offset)
        facts = SegmentFacts(base_offset)
        self._producers.begin_segment()
        with LogFile(path) as file:
            try:
                for batch in file.batches():
                    if not batch.crc_ok and self._may_be_torn(file):
                        raise CorruptBatch(batch.position, "the checksum is wrong")
                    yield from self._check_batch(str(path), batch, facts)
            except CorruptBatch as corrupt:
                if not self._is_room(file, corrupt.position):
                    facts.broken = True
                    yield self._broken(file, corrupt)
        complete = self._is_complete(base_offset)
        sparse = self.directory.is_compacted(base_offset)
        yield from check_offset_index(self._path(base_offset, INDEX), facts, complete=complete, sparse=sparse)
        yield from check_time_index(self._path(base_offset, TIME_INDEX), facts, complete=complete)
        if self._trusted:
            yield from check_txn_index(
                self._path(base_offset, TXN_INDEX),
                self._producers,
                facts,
                complete=complete,
                sparse=sparse,
            )

    def _check_segment_start(self, path: str, base_offset: int) -> Iterator[Finding]:
        """A segment is named after the offset that is next when it is begun."""
        expected = base_offset if self._expected is None else self._expected
        if base_offset < expected or (base_offset > expected and not self.directory.is_compacted(expected)):
            self._trusted = False
            yield error("offset", path, f"the segment before it ends at {expected}", offset=base_offset)
        self._expected, self._alternative = base_offset, None

    def _is_complete(self, base_offset: int) -> bool:
        """Whether all of a segment is below the point up to which everything is on disk."""
        until = self.directory.complete_until
        later = [base for base in self._bases if base > base_offset]
        return until is None or (bool(later) and later[0] <= until)

    def _may_be_torn(self, file: LogFile) -> bool:
        """Whether nobody was promised that a batch is whole which begins at the end so far."""
        return file.path == self._path(self._bases[-1], LOG) and not self.directory.is_complete(self.end_offset)

    def _is_room(self, file: LogFile, position: int) -> bool:
        """Zeros that a broker has put behind the last batch, for those to come. It takes them away when it stops."""
        return self._may_be_torn(file) and file.is_zero_from(position)

    def _broken(self, file: LogFile, corrupt: CorruptBatch) -> Finding:
        """A torn end that nobody was promised is what recovery cuts off; anything else is damage."""
        self._trusted = False
        self._expected = self._alternative = None
        where = {"position": corrupt.position, "offset": self.end_offset}
        rest = file.size_bytes - corrupt.position
        what = "only zeros" if file.is_zero_from(corrupt.position) else corrupt.reason
        if self._may_be_torn(file):
            message = f"the last {rest} bytes are no batch ({what}); recovery will cut them off"
            return note("torn-end", str(file.path), message, **where)
        message = f"no batch begins here ({what}); {rest} bytes cannot be read"
        return error("framing", str(file.path), message, **where)

    # -- batches ---------------------------------------------------------------------------------------------

    def _check_batch(self, path: str, batch: StoredBatch, facts: SegmentFacts) -> Iterator[Finding]:
        header, position = batch.header, batch.position
        self._totals.batches += 1
        self._totals.size_bytes += header.size_bytes
        self._progress(header.size_bytes)
        if not batch.crc_ok:
            self._trusted = False
            self._expected = self._alternative = None
            facts.suspects.add(position)
            message = f"the checksum of a batch of {header.size_bytes} bytes is wrong"
            yield error("crc", path, message, position=position, offset=header.base_offset)
            return
        yield from self._check_snapshots(header.base_offset)
        facts.add(position, header.base_offset, header.last_offset, header.max_timestamp)
        self._totals.records += header.record_count
        yield from self._check_offsets(path, batch, facts)
        yield from self._check_epoch(path, batch)
        reason = batch_reason(header, batch.data, self.directory.is_compacted(header.base_offset))
        if reason:
            yield error("records", path, reason, position=position, offset=header.base_offset)
        if self._trusted:
            compacted = self.directory.is_compacted(header.base_offset)
            yield from self._producers.take(path, position, header, batch.data, compacted)

    def _check_offsets(self, path: str, batch: StoredBatch, facts: SegmentFacts) -> Iterator[Finding]:
        header = batch.header
        base = header.base_offset
        expected = base if self._expected is None else self._expected
        at = {"position": batch.position, "offset": base}
        if base < facts.base_offset:
            yield error("offset", path, f"it is below the segment's first offset {facts.base_offset}", **at)
        wrong = base < expected or (base > expected and not self.directory.is_compacted(expected))
        if wrong and base != self._alternative:
            self._trusted = False
            what = "the offsets go back" if base < expected else f"{base - expected} offsets are missing"
            yield error("offset", path, f"{what}: {expected} was next", **at)
        # If one batch has a wrong offset, the next may be right by the order before it.
        self._alternative = expected + header.last_offset_delta + 1 if wrong else None
        self._expected = header.last_offset + 1
        self.end_offset = max(self.end_offset, header.last_offset + 1)

    def _check_epoch(self, path: str, batch: StoredBatch) -> Iterator[Finding]:
        epoch, offset = batch.header.leader_epoch, batch.header.base_offset
        if epoch < 0 or epoch == self._epoch:
            return
        if epoch < self._epoch:
            message = f"leader epoch {epoch} after {self._epoch}"
            yield error("leader-epoch", path, message, position=batch.position, offset=offset)
            return
        self._epoch = epoch
        self._epoch_starts.append((epoch, offset, path, batch.position))

    # -- beside the segments ---------------------------------------------------------------------------------

    def _load_first_snapshot(self) -> Iterator[Finding]:
        """Where retention removed the beginning, the oldest snapshot stands for what it held."""
        base_offset = self._bases[0]
        if base_offset in self._snapshots:
            entries, problem = read_snapshot(self._path(base_offset, SNAPSHOT))
            self._snapshots.remove(base_offset)
            if problem is not None:
                self._trusted = False
                yield problem
            self._producers.load(entries)
        elif base_offset > 0:
            self._producers.begins_late = True

    def _check_snapshots(self, up_to: int | None) -> Iterator[Finding]:
        """Snapshots between the batches taken so far and the next segment."""
        while self._snapshots and (up_to is None or self._snapshots[0] <= up_to):
            offset = self._snapshots.pop(0)
            path = self._path(offset, SNAPSHOT)
            if offset > self.end_offset and self._trusted:
                if self.directory.is_complete(offset):
                    yield error("snapshot-offset", str(path), f"the log ends at {self.end_offset}", offset=offset)
                continue
            replayable = self._trusted and offset == self.end_offset
            yield from check_snapshot(
                path,
                self._producers if replayable and not self.directory.is_compacted(offset - 1) else None,
            )

    def _check_epoch_file(self) -> Iterator[Finding]:
        path = self.directory.path / leader_epochs.FILE_NAME
        if not path.exists():
            if self._epoch_starts:
                say = error if self.directory.is_complete(self._epoch_starts[-1][1]) else note
                yield say("epoch-file", str(path), "the partition has no such file")
            return
        try:
            lines = checkpoints.decode_lines(path.read_bytes())
            entries = [(int(epoch), int(start)) for epoch, start in map(str.split, lines)]
        except ValueError as problem:
            yield error("epoch-file", str(path), f"it cannot be read: {problem}")
            return
        if any(a[0] >= b[0] or a[1] >= b[1] for a, b in pairwise(entries)):
            yield error("epoch-file", str(path), "its epochs or offsets do not ascend")
            return
        for epoch, offset, where, position in self._epoch_starts:
            covering = [known for known, start in entries if start <= offset]
            if not covering and self._begins_deleted(entries, epoch):
                continue
            if not covering or covering[-1] != epoch:
                known = covering[-1] if covering else "none"
                say = error if self.directory.is_complete(offset) else note
                message = f"batches of leader epoch {epoch} begin here, {path.name} says {known}"
                yield say("epoch-file", where, message, position=position, offset=offset)
        if entries and self._trusted and entries[-1][1] > self.end_offset:
            message = f"epoch {entries[-1][0]} begins at {entries[-1][1]}, the log ends at {self.end_offset}"
            yield error("epoch-file", str(path), message)

    def _begins_deleted(self, entries: list[tuple[int, int]], epoch: int) -> bool:
        """DeleteRecords moves the first epoch to the new start of the log, and the batches before it stay a while."""
        start = self.directory.log_start_offset
        return bool(entries) and epoch <= entries[0][0] and (start is None or entries[0][1] <= start)

    def _check_rest(self) -> Iterator[Finding]:
        for first_offset, producer_id in self._producers.open_transactions() if self._trusted else ():
            message = f"the transaction of producer {producer_id} is open"
            yield note("open-transaction", str(self.directory.path), message, offset=first_offset)
        metadata = self.directory.path / checkpoints.PARTITION_METADATA
        if metadata.exists() and checkpoints.read_partition_metadata(Disk(), str(self.directory.path)) is None:
            yield error("partition-metadata", str(metadata), "it cannot be read")
        bases = set(self._bases)
        for name in self._names:
            path = str(self.directory.path / name)
            if name.endswith((".deleted", ".cleaned", ".swap")):
                yield note("leftover", path, "the broker was not done with this file")
            elif name.endswith((INDEX, TIME_INDEX, TXN_INDEX)) and offset_of_file(name) not in bases:
                yield note("leftover", path, "an index without its segment")
