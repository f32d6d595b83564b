"""Producer state of a partition: deduplication, fencing and open transactions.

The state is a function of the log: it is rebuilt from a snapshot and the batches behind it, so it survives a
crash and moves with the leader. `check_*` decide whether an append may happen and change nothing; `apply_*`
record one that did. Rules and error codes are Apache Kafka 4.3's, with two exceptions that are kinder to
clients and that `check_sequence` and `expire` explain.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from oncelog.broker.log.producer_entry import ProducerBatch, ProducerEntry
from oncelog.broker.log.verification import VerificationGuard, VerificationState
from oncelog.named_tuple import NamedTuple
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.records.batch import BatchHeader

SEQUENCE_MAX = 2**31 - 1
EPOCH_MAX = 2**15 - 1
TRANSACTIONAL = 0x10
CONTROL = 0x20


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

    __slots__ = ("_first_unstable", "entries", "ongoing", "unreplicated", "verification")

    def __init__(self) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        self.ongoing: dict[int, int] = {}
        """First offset to producer id of the open transactions, ascending: they are opened in that order."""
        self.unreplicated: dict[int, int] = {}
        """First to last offset of transactions whose marker is not below the high watermark yet."""
        self.verification = VerificationState()
        self._first_unstable = -1

    # -- loading ---------------------------------------------------------------------------------------------

    def load(self, entries: Iterable[ProducerEntry], now_ms: int) -> None:
        """Replaces the state by a snapshot's. Verifications in flight are void: their guard is gone."""
        self.entries = {entry.producer_id: entry for entry in entries}
        open_txns = [e for e in self.entries.values() if e.txn_first_offset >= 0]
        self.ongoing = {e.txn_first_offset: e.producer_id for e in sorted(open_txns, key=lambda e: e.txn_first_offset)}
        self.unreplicated = {}
        self.verification = VerificationState()
        for entry in self.entries.values():
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
            entry = self.entries[producer_id] = ProducerEntry(producer_id, header.producer_epoch)
        elif entry.epoch != header.producer_epoch:
            entry.set_epoch(header.producer_epoch)
        entry.add_batch(ProducerBatch(header.base_sequence, header.last_sequence, first_offset, last_offset, timestamp))
        entry.last_append_ms = now_ms
        if header.attributes & TRANSACTIONAL:
            if entry.txn_first_offset < 0:
                entry.txn_first_offset = first_offset
                self.ongoing[first_offset] = producer_id
                self._update_first_unstable()
            self.verification.clear(producer_id)

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
            entry = self.entries[producer_id] = ProducerEntry(producer_id, epoch)
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

    def stable_offset_after(self, txn: CompletedTxn) -> int:
        """The last stable offset once `txn` is complete: the next open transaction's first offset."""
        for first_offset, producer_id in self.ongoing.items():
            if producer_id != txn.producer_id:
                return first_offset
        return txn.last_offset + 1

    def complete(self, txn: CompletedTxn) -> None:
        del self.ongoing[txn.first_offset]
        self.unreplicated[txn.first_offset] = txn.last_offset
        self._update_first_unstable()

    # -- what becomes of it ----------------------------------------------------------------------------------

    def on_high_watermark(self, high_watermark: int) -> None:
        """Transactions whose marker is replicated are stable from now on."""
        if not self.unreplicated:
            return
        done = [first for first, last in self.unreplicated.items() if last < high_watermark]
        for first in done:
            del self.unreplicated[first]
        if done:
            self._update_first_unstable()

    @property
    def first_unstable_offset(self) -> int:
        """First offset of the oldest transaction that is open or not yet replicated; -1 if there is none."""
        return self._first_unstable

    def _update_first_unstable(self) -> None:
        first = next(iter(self.ongoing), -1)
        if self.unreplicated:
            completed = min(self.unreplicated)
            first = completed if first < 0 else min(first, completed)
        self._first_unstable = first

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forgets producers that were idle for long, except those with an open transaction.

        Idle by our clock, not by the records' timestamps as in Kafka: a producer that writes last year's
        events must keep its deduplication state while it writes.
        """
        expired = [
            entry.producer_id
            for entry in self.entries.values()
            if entry.txn_first_offset < 0 and now_ms - max(entry.last_append_ms, entry.last_timestamp) >= expiration_ms
        ]
        for producer_id in expired:
            del self.entries[producer_id]
        self.verification.expire(now_ms, expiration_ms)

    def state(self) -> dict[int, tuple[object, ...]]:
        """Everything that follows from the log, for comparison."""
        return {producer_id: entry.state() for producer_id, entry in self.entries.items()}
