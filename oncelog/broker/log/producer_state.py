"""Producer state of a partition: deduplication, fencing and open transactions.

The state is a function of the log: it is rebuilt from a snapshot and the batches behind it, so it survives a
crash and moves with the leader. `check_*` decide whether an append may happen and change nothing; `apply_*`
record one that did. Rules and error codes are Apache Kafka 4.3's, with two exceptions that are kinder to
clients and that `check_sequence` and `expire` explain.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import TYPE_CHECKING

from oncelog.broker.log.producer_entry import ProducerBatch, ProducerEntry
from oncelog.broker.log.producer_snapshot import GradualSnapshot
from oncelog.broker.log.verification import VerificationGuard, VerificationState
from oncelog.named_tuple import NamedTuple
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.records.batch import BatchHeader

if TYPE_CHECKING:
    from oncelog.broker.log.steps import Steps

SEQUENCE_MAX = 2**31 - 1
EPOCH_MAX = 2**15 - 1
TRANSACTIONAL = 0x10
CONTROL = 0x20
_EXPIRED_AT_ONCE = 1000


class AppendOrigin(IntEnum):
    """Who appends, and so how much is checked."""

    CLIENT = 0
    REPLICATION = 1
    COORDINATOR = 2


class CompletedTxn(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class ProducerState:
    """All producers of one partition."""

    __slots__ = (
        "_unreplicated",
        "_unstable",
        "entries",
        "first_unstable_offset",
        "ongoing",
        "slots",
        "snapshot",
        "verification",
    )

    def __init__(self) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        self.slots: list[ProducerEntry] = []
        """The same entries in a list, for work that goes over all of them in steps: to copy so many takes too long.
        Whoever goes through it backwards misses none, because the last one takes the place of one that is removed."""
        # The first key of an OrderedDict is found at once, however many were removed before it.
        self.ongoing: OrderedDict[int, int] = OrderedDict()
        """First offset to producer id of the open transactions, ascending: they are opened in that order."""
        self._unstable: OrderedDict[int, None] = OrderedDict()
        """First offsets of the open transactions and of those in `_unreplicated`, ascending."""
        self._unreplicated: deque[CompletedTxn] = deque()
        """Transactions whose marker is not below the high watermark yet, by the marker's offset."""
        self.first_unstable_offset = -1
        """First offset of the oldest transaction that is open or not yet replicated; -1 if there is none."""
        self.verification = VerificationState()
        self.snapshot: GradualSnapshot | None = None
        """A snapshot that is being encoded, see `large_snapshots`."""

    # -- loading ---------------------------------------------------------------------------------------------

    def load(self, entries: Iterable[ProducerEntry], now_ms: int) -> None:
        """Replaces the state by a snapshot's. Verifications in flight are void: their guard is gone."""
        self.entries = {entry.producer_id: entry for entry in entries}
        self.slots = list(self.entries.values())
        open_txns = [entry for entry in self.slots if entry.txn_first_offset >= 0]
        open_txns.sort(key=lambda entry: entry.txn_first_offset)
        self.ongoing = OrderedDict((entry.txn_first_offset, entry.producer_id) for entry in open_txns)
        self._unstable = OrderedDict.fromkeys(self.ongoing)
        self._unreplicated = deque()
        self.verification = VerificationState()
        self.snapshot = None
        for slot, entry in enumerate(self.slots):
            entry.slot = slot
            entry.last_append_ms = now_ms
        self._update_first_unstable()

    # -- checks ----------------------------------------------------------------------------------------------

    def find_duplicate(self, header: BatchHeader) -> ProducerBatch | None:
        """One of the last five batches of this producer with exactly these sequences."""
        entry = self.entries.get(header.producer_id)
        if entry is None or entry.epoch != header.producer_epoch or not entry.batches:
            return None
        first = header.base_sequence
        if first == entry.batches[-1].last_sequence + 1:
            # The next one in order, as nearly all are.
            return None
        last = header.last_sequence
        for batch in entry.batches:
            if batch.first_sequence == first and batch.last_sequence == last:
                return batch
        return None

    def check_data_batch(self, header: BatchHeader, origin: AppendOrigin) -> None:
        """Epoch, sequence and transaction of a batch that is not a duplicate."""
        entry = self.entries.get(header.producer_id)
        if entry is not None:
            if header.producer_epoch < entry.epoch:
                self._raise_fenced(header.producer_id, header.producer_epoch, entry.epoch)
            if origin == AppendOrigin.CLIENT:
                self._check_sequence(entry, header)
            if entry.txn_first_offset >= 0 and not header.attributes & TRANSACTIONAL:
                raise KafkaError(
                    ErrorCode.INVALID_TXN_STATE,
                    f"producer {header.producer_id} has an open transaction and wrote outside of it",
                )
        elif origin == AppendOrigin.CLIENT:
            self.verification.check_sequence(header.producer_id, header.base_sequence, has_batches=False)

    def _check_sequence(self, entry: ProducerEntry, header: BatchHeader) -> None:
        first = header.base_sequence
        batches = entry.batches
        self.verification.check_sequence(header.producer_id, first, has_batches=bool(batches))
        if header.producer_epoch != entry.epoch:
            if first != 0:
                raise KafkaError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"producer {header.producer_id} begins epoch {header.producer_epoch} at sequence {first}",
                )
            return
        last = batches[-1].last_sequence if batches else -1
        if first == last + 1 or (first == 0 and last == SEQUENCE_MAX):
            return
        # A batch older than the five remembered ones was certainly written if every sequence of this epoch
        # passed here: saying so lets the client go on. Kafka 4.3 says out of order, which clients that lost
        # the first answer take as fatal.
        if entry.sequences_from_zero and header.last_sequence < batches[0].first_sequence <= last:
            raise KafkaError(
                ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
                f"sequence {first} of producer {header.producer_id} was written before",
            )
        raise KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {header.producer_id} sent sequence {first} after {last}",
        )

    def check_verified(self, header: BatchHeader, guard: object | None) -> None:
        """KIP-890: the first batch of a transaction needs the coordinator's word that it is open."""
        entry = self.entries.get(header.producer_id)
        if entry is not None:
            # Fencing comes before verification, or a zombie would be told INVALID_TXN_STATE and retry.
            if header.producer_epoch < entry.epoch:
                self._raise_fenced(header.producer_id, header.producer_epoch, entry.epoch)
            if entry.txn_first_offset >= 0 and header.producer_epoch == entry.epoch:
                return
        if not self.verification.is_verified(header.producer_id, guard):
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, "the record is not part of an ongoing transaction")

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int, *, transaction_version: int) -> None:
        """Fencing of a transaction marker by producer epoch and by coordinator epoch.

        In transaction version 2 (KIP-890) the marker carries the bumped epoch; the same epoch again is a
        retry of the marker, or the producer at the end of its epochs.
        """
        entry = self.entries.get(producer_id)
        known_epoch, known_coordinator_epoch = (-1, -1) if entry is None else (entry.epoch, entry.coordinator_epoch)
        if epoch < known_epoch:
            self._raise_fenced(producer_id, epoch, known_epoch)
        is_open = entry is not None and entry.txn_first_offset >= 0
        if transaction_version >= 2 and epoch == known_epoch and is_open and epoch != EPOCH_MAX:
            self._raise_fenced(producer_id, epoch, known_epoch)
        if coordinator_epoch < known_coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"coordinator epoch {coordinator_epoch} for producer {producer_id} is older than "
                f"{known_coordinator_epoch}",
            )

    def _raise_fenced(self, producer_id: int, epoch: int, current: int) -> None:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"epoch {epoch} of producer {producer_id} is behind the last seen epoch {current}",
        )

    def begin_verification(
        self, producer_id: int, sequence: int, epoch: int, *, supports_epoch_bump: bool, now_ms: int
    ) -> VerificationGuard | None:
        """None if the transaction is open already and nothing needs to be verified."""
        entry = self.entries.get(producer_id)
        if entry is not None and epoch < entry.epoch:
            self._raise_fenced(producer_id, epoch, entry.epoch)
        if self.has_ongoing_transaction(producer_id, epoch):
            return None
        return self.verification.begin(
            producer_id, sequence, epoch, supports_epoch_bump=supports_epoch_bump, now_ms=now_ms
        )

    def has_ongoing_transaction(self, producer_id: int, epoch: int) -> bool:
        entry = self.entries.get(producer_id)
        return entry is not None and entry.txn_first_offset >= 0 and entry.epoch == epoch

    # -- what was appended -----------------------------------------------------------------------------------

    def apply_data_batch(
        self, header: BatchHeader, first_offset: int, last_offset: int, timestamp: int, now_ms: int
    ) -> None:
        producer_id = header.producer_id
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self._add(producer_id, header.producer_epoch)
        else:
            if self.snapshot is not None:
                self.snapshot.encode(entry)
            if entry.epoch != header.producer_epoch:
                entry.set_epoch(header.producer_epoch)
        entry.add_batch(ProducerBatch(header.base_sequence, header.last_sequence, first_offset, last_offset, timestamp))
        entry.last_append_ms = now_ms
        if header.attributes & TRANSACTIONAL:
            if entry.txn_first_offset < 0:
                entry.txn_first_offset = first_offset
                self.ongoing[first_offset] = producer_id
                self._unstable[first_offset] = None
                self._update_first_unstable()
            self.verification.clear(producer_id)

    def _add(self, producer_id: int, epoch: int) -> ProducerEntry:
        entry = self.entries[producer_id] = ProducerEntry(producer_id, epoch)
        entry.slot = len(self.slots)
        self.slots.append(entry)
        return entry

    def apply_marker(
        self,
        producer_id: int,
        epoch: int,
        coordinator_epoch: int,
        *,
        aborted: bool,
        offset: int,
        timestamp: int,
        now_ms: int,
    ) -> CompletedTxn | None:
        """Ends the producer's transaction; None if it had written nothing here."""
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self._add(producer_id, epoch)
        elif self.snapshot is not None:
            self.snapshot.encode(entry)
        first_offset = entry.txn_first_offset
        entry.set_epoch(epoch)
        entry.coordinator_epoch = coordinator_epoch
        entry.last_timestamp = timestamp
        entry.last_append_ms = now_ms
        entry.txn_first_offset = -1
        self.verification.clear(producer_id)
        if first_offset < 0:
            return None
        return CompletedTxn(producer_id, first_offset, offset, aborted)

    def complete(self, txn: CompletedTxn) -> int:
        """Closes `txn`; returns the last stable offset after it: where the next open transaction begins."""
        del self.ongoing[txn.first_offset]
        self._unreplicated.append(txn)
        return next(iter(self.ongoing), txn.last_offset + 1)

    # -- what becomes of it ----------------------------------------------------------------------------------

    def on_high_watermark(self, high_watermark: int) -> None:
        """Transactions whose marker is replicated are stable from now on."""
        unreplicated = self._unreplicated
        if not unreplicated or unreplicated[0].last_offset >= high_watermark:
            return
        while unreplicated and unreplicated[0].last_offset < high_watermark:
            del self._unstable[unreplicated.popleft().first_offset]
        self._update_first_unstable()

    def _update_first_unstable(self) -> None:
        self.first_unstable_offset = next(iter(self._unstable), -1)

    def expire(self, now_ms: int, expiration_ms: int) -> Steps[None]:
        """Forgets producers that were idle for long, except those with an open transaction.

        Idle by our clock, not by the records' timestamps as in Kafka: a producer that writes last year's
        events must keep its deduplication state while it writes.
        """
        end = len(self.slots)
        while end > 0:
            start = max(0, end - _EXPIRED_AT_ONCE)
            for entry in reversed(self.slots[start:end]):
                idle_ms = now_ms - max(entry.last_append_ms, entry.last_timestamp)
                if idle_ms >= expiration_ms and entry.txn_first_offset < 0:
                    self._forget(entry)
            end = start
            yield None
        yield from self.verification.expire(now_ms, expiration_ms)

    def _forget(self, entry: ProducerEntry) -> None:
        del self.entries[entry.producer_id]
        last = self.slots.pop()
        if self.snapshot is not None:
            self.snapshot.encode(entry)
            self.snapshot.encode(last)
        if last is not entry:
            self.slots[entry.slot] = last
            last.slot = entry.slot

    def iterate(self) -> Iterator[ProducerEntry]:
        """All producers. They may go on writing, and expire, while the caller goes through them."""
        slot = len(self.slots)
        while slot := min(slot, len(self.slots)):
            slot -= 1
            yield self.slots[slot]

    def state(self) -> dict[int, tuple[object, ...]]:
        """Everything that follows from the log, for comparison."""
        return {producer_id: entry.state() for producer_id, entry in self.entries.items()}
