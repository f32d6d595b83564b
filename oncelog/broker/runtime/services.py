"""What handlers work with: the running parts of one broker, put together by `broker.app`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.runtime.cpu_workers import CpuWorkers
from oncelog.broker.runtime.turns import Turns
from oncelog.broker.runtime.waiters import AckTimeouts

if TYPE_CHECKING:
    from oncelog.broker.config import BrokerConfig
    from oncelog.broker.coordinator.groups import GroupCoordinator
    from oncelog.broker.coordinator.transactions.coordinator import TransactionCoordinator
    from oncelog.broker.log.log_manager import LogManager
    from oncelog.broker.replica.manager import ReplicaManager
    from oncelog.broker.runtime.clock import Clock
    from oncelog.broker.runtime.coordinators import CoordinatorHost
    from oncelog.broker.runtime.fetch_sessions import FetchSessions
    from oncelog.broker.runtime.metadata import MetadataRuntime
    from oncelog.broker.runtime.producer_ids import ProducerIdAllocator
    from oncelog.broker.runtime.quotas import Quotas


class Services:
    __slots__ = (
        "ack_timeouts",
        "broker_id",
        "clock",
        "config",
        "cpu_workers",
        "fetch_sessions",
        "fetch_size_bytes_max",
        "groups",
        "logs",
        "metadata",
        "partitions",
        "producer_ids",
        "quotas",
        "transactions",
        "turns",
    )

    groups: CoordinatorHost[GroupCoordinator]
    transactions: CoordinatorHost[TransactionCoordinator]

    def __init__(
        self,
        *,
        broker_id: int,
        config: BrokerConfig,
        clock: Clock,
        metadata: MetadataRuntime,
        logs: LogManager,
        partitions: ReplicaManager,
        producer_ids: ProducerIdAllocator,
        fetch_sessions: FetchSessions,
        quotas: Quotas,
    ) -> None:
        self.ack_timeouts = AckTimeouts()
        self.broker_id = broker_id
        self.config = config
        """Replaced as a whole when a dynamic setting changes."""
        self.clock = clock
        self.cpu_workers = CpuWorkers()
        self.metadata = metadata
        self.logs = logs
        self.partitions = partitions
        self.producer_ids = producer_ids
        self.fetch_sessions = fetch_sessions
        self.quotas = quotas
        self.turns = Turns()
        self.fetch_size_bytes_max = config.int("fetch.max.bytes")
