"""Verification of transactions in flight (KIP-890).

Before the first batch of a transaction is appended, the partition's leader asks the coordinator whether the
transaction is open there. The guard handed out for that question must be presented with the append. A marker
that arrives in between removes it, so an answer that is out of date by then opens nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from oncelog.broker.log.steps import Steps

_EXPIRED_AT_ONCE = 1000


class VerificationGuard:
    """A token that is equal to itself only."""

    __slots__ = ()


class _Entry:
    __slots__ = ("created_ms", "epoch", "guard", "lowest_sequence", "supports_epoch_bump")

    def __init__(self, created_ms: int, sequence: int, epoch: int, supports_epoch_bump: bool) -> None:
        self.created_ms = created_ms
        self.guard = VerificationGuard()
        self.lowest_sequence = sequence
        self.epoch = epoch
        self.supports_epoch_bump = supports_epoch_bump


class VerificationState:
    """Producers of a partition that wait for their first append to be verified."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[int, _Entry] = {}

    def begin(
        self, producer_id: int, sequence: int, epoch: int, *, supports_epoch_bump: bool, now_ms: int
    ) -> VerificationGuard:
        """Keeps the lowest sequence seen, so that a later batch cannot overtake one that is retried."""
        entry = self._entries.get(producer_id)
        if entry is None:
            entry = self._entries[producer_id] = _Entry(now_ms, sequence, epoch, supports_epoch_bump)
        elif epoch > entry.epoch:
            entry.epoch = epoch
            entry.lowest_sequence = sequence
        elif epoch == entry.epoch and sequence < entry.lowest_sequence:
            entry.lowest_sequence = sequence
        return entry.guard

    def is_verified(self, producer_id: int, guard: object | None) -> bool:
        entry = self._entries.get(producer_id)
        return entry is not None and entry.guard is guard

    def check_sequence(self, producer_id: int, sequence: int, *, has_batches: bool) -> None:
        entry = self._entries.get(producer_id)
        if entry is None:
            return
        if entry.supports_epoch_bump and sequence != 0 and not has_batches:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id} must begin with sequence 0, not {sequence}",
            )
        if sequence > entry.lowest_sequence:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id} sent sequence {sequence} before {entry.lowest_sequence}",
            )

    def clear(self, producer_id: int) -> None:
        self._entries.pop(producer_id, None)

    def expire(self, now_ms: int, expiration_ms: int) -> Steps[None]:
        entries = list(self._entries.items())
        for start in range(0, len(entries), _EXPIRED_AT_ONCE):
            for producer_id, entry in entries[start : start + _EXPIRED_AT_ONCE]:
                if now_ms - entry.created_ms >= expiration_ms and self._entries.get(producer_id) is entry:
                    del self._entries[producer_id]
            yield None
