"""What the coordinator remembers of a transactional id without writing it down; it is gone after a restart.

`LastSeen` is of the connections of this process and outlives the coordinator in it: after a failure of its disk it
reads its log anew, and the clients, and what they have sent too late, are still there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.coordinator.txn.state import NO_EPOCH, ProducerIdentity, State, Transaction
from oncelog.named_tuple import NamedTuple

if TYPE_CHECKING:
    from oncelog.broker.coordinator.txn.requests import InitRequest


class Client(NamedTuple):
    """Who is at the other end, for people who ask."""

    address: str
    client_id: str


class LastSeen:
    __slots__ = ("client", "connection")

    def __init__(self) -> None:
        self.connection = 0
        """The newest connection that was used for the id (KAFKA-17754)."""
        self.client: Client | None = None


class TransactionMemory:
    __slots__ = ("last_epoch", "seen", "timed_out", "waiting")

    def __init__(self, seen: LastSeen | None = None) -> None:
        self.seen = seen or LastSeen()
        self.last_epoch = NO_EPOCH
        """The epoch before the last bump, while the client may still have it: because our answer did not reach it
        (KIP-360), or because the transaction was aborted without its knowledge (KIP-588)."""
        self.timed_out = False
        """Whether the last bump was on account of the transaction's timeout."""
        self.waiting: InitRequest | None = None
        """Who gets the id as soon as what is open has ended."""

    def bumped(self, last_epoch: int, *, timed_out: bool = False) -> None:
        self.last_epoch = last_epoch
        self.timed_out = timed_out

    def new_epoch_used(self) -> None:
        """The client has heard of its epoch, so the one before is history."""
        self.bumped(NO_EPOCH)

    def may_recover(self, transaction: Transaction, producer: ProducerIdentity) -> bool:
        """Whether `producer` is the rightful owner of the transactional id, if perhaps an epoch behind."""
        if producer == transaction.identity:
            return True
        return (
            transaction.state != State.ONGOING
            and transaction.has_followed(producer)
            and producer.epoch == self.last_epoch
        )

    @property
    def is_being_taken_over(self) -> bool:
        """Whether another producer has asked for the id: from then on it does not belong to the former one."""
        return self.waiting is not None and self.waiting.expected is None
