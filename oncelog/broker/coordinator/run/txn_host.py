"""The host of the transaction coordinators, with its topic `__transaction_state` and its settings."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from oncelog.broker.admin.topics import create_topics, replicated
from oncelog.broker.coordinator.run.host import CoordinatorHost
from oncelog.broker.coordinator.txn.requests import TransactionSettings
from oncelog.broker.metadata.plans.topics import NewTopic

if TYPE_CHECKING:
    from oncelog.broker.coordinator.effects import BatchLimit
    from oncelog.broker.coordinator.txn.coordinator import TransactionCoordinator
    from oncelog.broker.coordinator.txn.memory import LastSeen
    from oncelog.broker.requests.services import Services
    from oncelog.broker.txn.markers import MarkerWriter

TOPIC = "__transaction_state"


def make_transaction_host(services: Services, markers: MarkerWriter) -> CoordinatorHost[TransactionCoordinator]:
    config = services.config
    settings = TransactionSettings(
        timeout_ms_max=config.int("transaction.max.timeout.ms"),
        expiration_ms=config.int("transactional.id.expiration.ms"),
        expiration_check_ms=config.int("transaction.remove.expired.transaction.cleanup.interval.ms"),
    )
    topic = NewTopic(
        TOPIC,
        partition_count=config.int("transaction.state.log.num.partitions"),
        configs=[
            ("cleanup.policy", "compact"),
            ("compression.type", "uncompressed"),
            ("segment.bytes", str(config.int("transaction.state.log.segment.bytes"))),
            ("unclean.leader.election.enable", "false"),
        ],
    )
    replication_factor = config.int("transaction.state.log.replication.factor")

    def with_replicas(topic: NewTopic) -> NewTopic:
        """With fewer replicas than wished, not more of them can be asked to be in sync."""
        topic = replicated(services, topic, replication_factor)
        in_sync_count_min = min(config.int("transaction.state.log.min.isr"), topic.replication_factor)
        return topic._replace(configs=[*topic.configs, ("min.insync.replicas", str(in_sync_count_min))])

    seen: defaultdict[int, dict[str, LastSeen]] = defaultdict(dict)

    def make_coordinator(index: int, batch_bytes_max: BatchLimit) -> TransactionCoordinator:
        # Loaded for the first transaction; a broker starts faster without it.
        from oncelog.broker.coordinator.txn.coordinator import TransactionCoordinator

        return TransactionCoordinator(settings, seen[index], batch_bytes_max)

    return CoordinatorHost(
        topic,
        make_coordinator,
        broker_id=services.broker_id,
        metadata=services.metadata,
        partitions=services.partitions,
        clock=services.clock,
        turns=services.turns,
        create_topics=lambda topics: create_topics(services, [with_replicas(topic) for topic in topics]),
        perform=markers.perform,
    )
