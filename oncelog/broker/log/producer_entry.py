"""What a partition remembers of one producer."""

from __future__ import annotations

from oncelog.named_tuple import NamedTuple

BATCHES_MAX = 5
"""Kafka's clients have at most five requests in flight, so a retry is one of the last five batches."""


class ProducerBatch(NamedTuple):
    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class ProducerEntry:
    """Epoch, last batches and open transaction of a producer id in one partition."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_append_ms",
        "last_timestamp",
        "producer_id",
        "restored",
        "sequences_from_zero",
        "slot",
        "txn_first_offset",
    )

    def __init__(self, producer_id: int, epoch: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.coordinator_epoch = -1
        self.last_timestamp = -1
        self.last_append_ms = -1
        """When it last wrote by our clock; timestamps of records may be years old and must not expire it."""
        self.txn_first_offset = -1
        self.sequences_from_zero = False
        """True if every sequence of this epoch was seen here, so that a lower one is known to be written."""
        self.restored = False
        """True if it comes from a snapshot, which knows only the last batch."""
        self.slot = -1
        """Its place in `ProducerState.slots`."""
        self.batches: list[ProducerBatch] = []

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else -1

    def set_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()
            self.sequences_from_zero = False

    def add_batch(self, batch: ProducerBatch) -> None:
        if not self.batches:
            self.sequences_from_zero = batch.first_sequence == 0
        elif len(self.batches) == BATCHES_MAX:
            del self.batches[0]
        self.batches.append(batch)
        self.last_timestamp = batch.timestamp

    def state(self) -> tuple[int, int, int, int, int, tuple[ProducerBatch, ...]]:
        """What follows from the log alone; equal states mean equal histories."""
        return (
            self.producer_id,
            self.epoch,
            self.coordinator_epoch,
            self.last_timestamp,
            self.txn_first_offset,
            tuple(self.batches),
        )
