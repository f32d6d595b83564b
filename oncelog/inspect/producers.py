"""Replays the producers of a partition from its batches, and says where their history contradicts itself.

This is a second implementation beside the broker's on purpose: a check that shared its code would share its
mistakes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from oncelog.broker.log.producer_entry import ProducerEntry
from oncelog.broker.log.txn_index import AbortedTxn
from oncelog.inspect.findings import Finding, error, note
from oncelog.named_tuple import NamedTuple
from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.records.batch import NO_SEQUENCE, SEQUENCE_MASK, BatchHeader
from oncelog.protocol.records.control import ControlType, EndTxnMarker, decode_end_txn_marker
from oncelog.protocol.records.record import iter_records


class ProducerFacts(NamedTuple):
    """What a snapshot keeps of a producer."""

    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    txn_first_offset: int


UNKNOWN = ProducerFacts(-1, NO_SEQUENCE, -1, 0, -1, -1, -1)


class Producers:
    """The state after the batches taken so far. `aborted` collects what the txn index has to hold."""

    def __init__(self, *, check_sequences: bool) -> None:
        self.facts: dict[int, ProducerFacts] = {}
        self.aborted: list[AbortedTxn] = []
        self.abort_markers: set[tuple[int, int]] = set()
        """Producer id and offset of each abort marker of the segment, whether or not its records are there."""
        self.begins_late = False
        """Retention removed the beginning and no snapshot stands for it: older producers are unknown."""
        self._check_sequences = check_sequences

    def begin_segment(self) -> None:
        """The txn index is kept by segment."""
        self.aborted = []
        self.abort_markers = set()

    def load(self, entries: Iterable[ProducerEntry]) -> None:
        self.facts = {entry.producer_id: facts_of(entry) for entry in entries}

    def take(
        self, path: str, position: int, header: BatchHeader, data: memoryview, compacted: bool
    ) -> Iterator[Finding]:
        if header.producer_id < 0:
            return
        known = self.facts.get(header.producer_id, UNKNOWN)
        if header.producer_epoch < known.epoch:
            yield error(
                "producer-epoch",
                path,
                f"producer {header.producer_id} writes with epoch {header.producer_epoch} after {known.epoch}",
                position=position,
                offset=header.base_offset,
            )
        if header.is_control:
            yield from self._take_marker(path, position, header, data, known)
        else:
            yield from self._take_data(path, position, header, known, compacted)

    def _take_data(
        self, path: str, position: int, header: BatchHeader, known: ProducerFacts, compacted: bool
    ) -> Iterator[Finding]:
        producer_id = header.producer_id
        if self._check_sequences and header.base_sequence >= 0:
            reason = _sequence_reason(header, known, compacted)
            if reason:
                yield error(
                    "sequence",
                    path,
                    f"producer {producer_id} epoch {header.producer_epoch}: {reason}",
                    position=position,
                    offset=header.base_offset,
                )
        txn_first_offset = known.txn_first_offset
        if header.is_transactional:
            if txn_first_offset < 0:
                txn_first_offset = header.base_offset
        elif txn_first_offset >= 0:
            yield error(
                "outside-transaction",
                path,
                f"producer {producer_id} writes outside of its transaction that is open since {txn_first_offset}",
                position=position,
                offset=header.base_offset,
            )
        self.facts[producer_id] = ProducerFacts(
            header.producer_epoch,
            header.last_sequence,
            header.last_offset,
            header.last_offset_delta,
            header.max_timestamp,
            known.coordinator_epoch,
            txn_first_offset,
        )

    def _take_marker(
        self, path: str, position: int, header: BatchHeader, data: memoryview, known: ProducerFacts
    ) -> Iterator[Finding]:
        producer_id, offset = header.producer_id, header.base_offset
        if header.record_count == 0:
            return
        try:
            timestamp, marker = _read_marker(data)
        except ProtocolError as problem:
            yield error("marker", path, f"a marker cannot be read: {problem}", position=position, offset=offset)
            return
        if marker.coordinator_epoch < known.coordinator_epoch:
            yield error(
                "coordinator-epoch",
                path,
                f"the marker of producer {producer_id} has coordinator epoch {marker.coordinator_epoch} "
                f"after {known.coordinator_epoch}",
                position=position,
                offset=offset,
            )
        if known.txn_first_offset < 0:
            # Legal where a partition was added to a transaction and nothing was written to it.
            message = f"the marker of producer {producer_id} ends no transaction of this partition"
            yield note("empty-transaction", path, message, position=position, offset=offset)
        kept = known if header.producer_epoch == known.epoch else UNKNOWN
        self.facts[producer_id] = ProducerFacts(
            header.producer_epoch,
            kept.last_sequence,
            kept.last_offset,
            kept.offset_delta,
            timestamp,
            marker.coordinator_epoch,
            -1,
        )
        if marker.type is not ControlType.ABORT:
            return
        self.abort_markers.add((producer_id, offset))
        if known.txn_first_offset >= 0:
            stable = min((first for first in self._open()), default=offset + 1)
            self.aborted.append(AbortedTxn(producer_id, known.txn_first_offset, offset, stable))

    def _open(self) -> Iterator[int]:
        return (facts.txn_first_offset for facts in self.facts.values() if facts.txn_first_offset >= 0)

    def open_transactions(self) -> list[tuple[int, int]]:
        """(first offset, producer id) of each transaction without its marker."""
        return sorted(
            (facts.txn_first_offset, producer_id)
            for producer_id, facts in self.facts.items()
            if facts.txn_first_offset >= 0
        )


def facts_of(entry: ProducerEntry) -> ProducerFacts:
    last_sequence, last_offset, offset_delta = NO_SEQUENCE, -1, 0
    if entry.batches:
        batch = entry.batches[-1]
        last_sequence, last_offset = batch.last_sequence, batch.last_offset
        offset_delta = batch.last_offset - batch.first_offset
    return ProducerFacts(
        entry.epoch,
        last_sequence,
        last_offset,
        offset_delta,
        entry.last_timestamp,
        entry.coordinator_epoch,
        entry.txn_first_offset,
    )


def _sequence_reason(header: BatchHeader, known: ProducerFacts, compacted: bool) -> str | None:
    """Why a batch's sequence cannot follow what is known of its producer; None if it can.

    A producer that is seen for the first time may begin anywhere, since retention may have removed what it
    wrote before; a known one begins each epoch with 0.
    """
    first = header.base_sequence
    if known is UNKNOWN or header.producer_epoch < known.epoch:
        return None
    if header.producer_epoch > known.epoch or known.last_sequence == NO_SEQUENCE:
        if header.producer_epoch == known.epoch or first == 0 or compacted:
            return None
        return f"the epoch begins with sequence {first} instead of 0"
    expected = (known.last_sequence + 1) & SEQUENCE_MASK
    if first == expected or (compacted and first > expected):
        return None
    if first <= known.last_sequence and header.last_sequence <= known.last_sequence:
        return f"sequence {first} is written again, {expected} is next"
    return f"sequence {first} where {expected} is next"


def _read_marker(data: memoryview) -> tuple[int, EndTxnMarker]:
    records = list(iter_records(data))
    if len(records) != 1:
        raise ProtocolError(f"it has {len(records)} records")
    return records[0].timestamp, decode_end_txn_marker(records[0])
