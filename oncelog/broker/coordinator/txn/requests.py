"""What the transaction coordinator is asked, and what it asks of the world outside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.named_tuple import NamedTuple

if TYPE_CHECKING:
    from oncelog.broker.coordinator.txn.memory import Client
    from oncelog.broker.coordinator.txn.state import ProducerIdentity, TopicPartition


class TransactionSettings(NamedTuple):
    timeout_ms_max: int = 900_000
    expiration_ms: int = 604_800_000
    expiration_check_ms: int = 3_600_000


class InitRequest(NamedTuple):
    transactional_id: str
    timeout_ms: int
    expected: ProducerIdentity | None = None
    """What a client that recovers from an error says that it has (KIP-360)."""
    connection: int = 0
    client: Client | None = None


class EndRequest(NamedTuple):
    transactional_id: str
    producer: ProducerIdentity
    commit: bool
    client_version: int
    connection: int = 0


class WriteMarkers(NamedTuple):
    """An effect: end the transaction in its partitions, then tell the coordinator by `markers_written`."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    partitions: frozenset[TopicPartition]
    client_version: int


class NeedsProducerId(Exception):
    """The operation has to be tried again with a fresh producer id, which only the outside can get."""
