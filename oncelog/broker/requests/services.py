"""What handlers work with: the running parts of one broker, put together by `broker.app`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.base.cpu_workers import CpuWorkers
from oncelog.broker.replica.checkpoint_writer import CheckpointWriter
from oncelog.broker.replica.waiters import AckTimeouts

if TYPE_CHECKING:
    from oncelog.broker.base.clock import Clock
    from oncelog.broker.base.turns import Turns
    from oncelog.broker.config import BrokerConfig
    from oncelog.broker.coordinator.group.coordinator import GroupCoordinator
    from oncelog.broker.coordinator.run.host import CoordinatorHost
    from oncelog.broker.coordinator.txn.coordinator import TransactionCoordinator
    from oncelog.broker.log.log_manager import LogManager
    from oncelog.broker.metadata.producer_ids import ProducerIdAllocator
    from oncelog.broker.metadata.runtime import MetadataRuntime
    from oncelog.broker.replica.manager import ReplicaManager
    from oncelog.broker.requests.fetch_sessions import FetchSessions
    from oncelog.broker.requests.quotas import Quotas


class Services:
    __slots__ = (
        "ack_timeouts",
        "broker_id",
        "checkpoints",
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
        turns: Turns,
    ) -> None:
        self.ack_timeouts = AckTimeouts()
        self.broker_id = broker_id
        self.config = config
        """Replaced as a whole when a dynamic setting changes."""
        self.checkpoints = CheckpointWriter(logs)
        self.clock = clock
        self.cpu_workers = CpuWorkers()
        self.metadata = metadata
        self.logs = logs
        self.partitions = partitions
        self.producer_ids = producer_ids
        self.fetch_sessions = fetch_sessions
        self.quotas = quotas
        self.turns = turns
        self.fetch_size_bytes_max = config.int("fetch.max.bytes")
