"""Checks of the indexes of one segment against the batches that were found in its `.log` file."""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from collections.abc import Generator, Iterator
from pathlib import Path

from oncelog.broker.log import offset_index, time_index, txn_index
from oncelog.broker.log.txn_index import AbortedTxn
from oncelog.inspect.findings import Finding, error, note
from oncelog.inspect.producers import Producers

_INDEX_INTERVAL_BYTES = 4096
"""A segment below this size has no entry in its offset index, so its absence says nothing."""


class SegmentFacts:
    """The batches of a segment, as columns."""

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.positions = array("q")
        self.base_offsets = array("q")
        self.last_offsets = array("q")
        self.max_timestamps = array("q")
        self.suspects: set[int] = set()
        """Positions of batches whose checksum is wrong; nothing that is said of them can be judged."""
        self.broken = False
        """The walk ended before the file did, so entries behind the last batch cannot be judged."""

    def add(self, position: int, base_offset: int, last_offset: int, max_timestamp: int) -> None:
        self.positions.append(position)
        self.base_offsets.append(base_offset)
        self.last_offsets.append(last_offset)
        self.max_timestamps.append(max_timestamp)

    def at_position(self, position: int) -> int | None:
        i = bisect_left(self.positions, position)
        return i if i < len(self.positions) and self.positions[i] == position else None

    def with_offset(self, offset: int) -> int | None:
        i = bisect_left(self.last_offsets, offset)
        return i if i < len(self.last_offsets) and self.base_offsets[i] <= offset else None

    @property
    def max_timestamp(self) -> int:
        return max(self.max_timestamps, default=-1)

    @property
    def last_position(self) -> int:
        return self.positions[-1] if self.positions else 0


def check_offset_index(path: Path, facts: SegmentFacts, *, complete: bool, sparse: bool) -> Iterator[Finding]:
    entries = yield from _read_entries(path, offset_index.ENTRY, facts, complete)
    before = (-1, -1)
    for number, (relative, position) in enumerate(entries):
        at, offset = number * offset_index.ENTRY_SIZE, facts.base_offset + relative
        if relative <= before[0] or position <= before[1]:
            message = f"entry {number} does not ascend: {(relative, position)} after {before}"
            yield error("index-order", str(path), message, position=at, offset=offset)
        before = (relative, position)
        batch = facts.at_position(position)
        if batch is None:
            if position not in facts.suspects and not (facts.broken and position > facts.last_position):
                message = f"entry {number} points to {position}, where no batch begins"
                yield error("index-position", str(path), message, position=at, offset=offset)
        elif not _matches(facts, batch, offset, sparse):
            message = f"entry {number} is for a batch that ends at {facts.last_offsets[batch]}"
            yield error("index-offset", str(path), message, position=at, offset=offset)


def _matches(facts: SegmentFacts, batch: int, offset: int, sparse: bool) -> bool:
    """The cleaner writes many batches at once and indexes the first with the offset of the last."""
    return offset == facts.last_offsets[batch] or (sparse and offset >= facts.base_offsets[batch])


def check_time_index(path: Path, facts: SegmentFacts, *, complete: bool) -> Iterator[Finding]:
    entries = yield from _read_entries(path, time_index.ENTRY, facts, complete)
    before = (-1, -1)
    newest = -1
    for number, (timestamp, relative) in enumerate(entries):
        at, offset = number * time_index.ENTRY_SIZE, facts.base_offset + relative
        if timestamp <= before[0] or relative < before[1]:
            message = f"entry {number} does not ascend: {(timestamp, relative)} after {before}"
            yield error("time-index-order", str(path), message, position=at, offset=offset)
        before = (timestamp, relative)
        newest = timestamp
        batch = facts.with_offset(offset)
        if batch is None:
            if not facts.suspects and not facts.broken:
                message = f"entry {number} is for an offset that is in no batch"
                yield error("time-index-offset", str(path), message, position=at, offset=offset)
        elif facts.max_timestamps[batch] != timestamp:
            message = f"entry {number} says {timestamp}, the batch has {facts.max_timestamps[batch]}"
            yield error("time-index-timestamp", str(path), message, position=at, offset=offset)
    if complete and not facts.broken and not facts.suspects and path.exists() and newest < facts.max_timestamp:
        message = f"the newest entry is {newest}, the segment has {facts.max_timestamp}"
        yield error("time-index-short", str(path), message)


def check_txn_index(
    path: Path, producers: Producers, facts: SegmentFacts, *, complete: bool, sparse: bool
) -> Iterator[Finding]:
    """`producers` has replayed the segment."""
    expected = producers.aborted
    try:
        found = txn_index.decode(path.read_bytes()) if path.exists() else []
    except ValueError as problem:
        yield error("txn-index-damaged", str(path), f"it cannot be read: {problem}")
        return
    if facts.broken:
        return
    for txn in found:
        # Where records were taken out, the first ones of the transaction may be gone, even its marker.
        known = sparse and (
            (txn.producer_id, txn.last_offset) in producers.abort_markers or facts.with_offset(txn.last_offset) is None
        )
        if txn not in expected and not known:
            message = f"no abort marker says what its entry does: {_describe(txn)}"
            yield error("txn-index-extra", str(path), message, offset=txn.last_offset)
    if sparse:
        # The cleaner drops an entry with the last record of its transaction, while the marker stays.
        return
    for txn in expected:
        if txn not in found:
            message = f"it lacks the abort marker's entry: {_describe(txn)}"
            say = error if complete else note
            yield say("txn-index-missing", str(path), message, offset=txn.last_offset)


def _describe(txn: AbortedTxn) -> str:
    return (
        f"producer {txn.producer_id}, offsets {txn.first_offset} to {txn.last_offset}, "
        f"stable up to {txn.last_stable_offset}"
    )


def _read_entries(
    path: Path, layout: struct.Struct, facts: SegmentFacts, complete: bool
) -> Generator[Finding, None, list[tuple[int, int]]]:
    """Reads a file of fixed-size entries; returns those before the zeros that a running broker leaves."""
    if not path.exists():
        if complete and facts.last_position > _INDEX_INTERVAL_BYTES:
            yield error("index-missing", str(path), "the segment has no such file")
        return []
    data = path.read_bytes()
    if len(data) % layout.size:
        yield error("index-size", str(path), f"{len(data)} bytes are not a multiple of {layout.size}")
        data = data[: len(data) // layout.size * layout.size]
    # A lone entry of zeros is one: the record at the segment's first offset may be as old as 1970.
    used = max(-(-len(data.rstrip(b"\0")) // layout.size), len(data) == layout.size) * layout.size
    if complete and used < len(data):
        yield error("index-padding", str(path), f"{len(data) - used} zeros follow the last entry", position=used)
    return list(layout.iter_unpack(data[:used]))
